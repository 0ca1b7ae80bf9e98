# cause: block-split-across-devices|tensor-created-on-wrong-device
# guilty: self.logit_scale (logit_scale)
import torch
import torch.nn as nn
import torch.nn.functional as F


class Clipish(nn.Module):
    def __init__(self, d=8, vision_device="cuda:0", text_device="cuda:1"):
        super().__init__()
        self.vision = nn.Sequential(nn.Flatten(), nn.Linear(27, d)).to(vision_device)
        self.text = nn.EmbeddingBag(40, d).to(text_device)
        self.logit_scale = nn.Parameter(torch.tensor(2.6, device=vision_device))
        self.text_device = text_device
        self.vision_device = vision_device

    def forward(self, images, tokens):
        iv = F.normalize(self.vision(images.to(self.vision_device)), dim=-1)
        tv = F.normalize(self.text(tokens.to(self.text_device)), dim=-1)
        sim = iv.to(self.text_device) @ tv.t()
        return sim * self.logit_scale.exp()


def clip_loss(logits):
    y = torch.arange(len(logits), device=logits.device)
    return (F.cross_entropy(logits, y) + F.cross_entropy(logits.t(), y)) / 2


torch.manual_seed(0)
net = Clipish()
opt = torch.optim.AdamW(net.parameters(), 1e-2)
for _ in range(3):
    loss = clip_loss(net(torch.rand(6, 3, 3, 3), torch.randint(0, 40, (6, 5))))
    opt.zero_grad()
    loss.backward()
    opt.step()
print(loss.item())
