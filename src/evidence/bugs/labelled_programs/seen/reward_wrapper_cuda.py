# cause: dispatched-model-moved
# guilty: ?
import torch
import torch.nn as nn
from accelerate import dispatch_model, infer_auto_device_map


class EncoderLayer(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.mix = nn.Linear(d, d)
        self.ff1 = nn.Linear(d, 4 * d)
        self.ff2 = nn.Linear(4 * d, d)

    def forward(self, x):
        x = x + self.mix(x.cumsum(1) / x.size(1))
        return x + self.ff2(torch.relu(self.ff1(x)))


class Encoder(nn.Module):
    def __init__(self, vocab=64, d=32, n=6):
        super().__init__()
        self.tokens = nn.Embedding(vocab, d)
        self.layers = nn.ModuleList(EncoderLayer(d) for _ in range(n))

    def forward(self, ids):
        h = self.tokens(ids)
        for layer in self.layers:
            h = layer(h)
        return h


def pretrained_backbone():
    enc = Encoder()
    total = sum(p.numel() * 4 for p in enc.parameters())
    plan = infer_auto_device_map(
        enc, max_memory={0: total * 6 // 10, 1: total}, no_split_module_classes=["EncoderLayer"]
    )
    return dispatch_model(enc, device_map=plan)


class RewardModel(nn.Module):
    def __init__(self, backbone, d=32):
        super().__init__()
        self.backbone = backbone
        self.value = nn.Linear(d, 1)

    def forward(self, ids):
        return self.value(self.backbone(ids)[:, -1]).squeeze(-1)


torch.manual_seed(0)
reward = RewardModel(pretrained_backbone())
reward.cuda()
opt = torch.optim.AdamW(reward.value.parameters(), lr=1e-3)
for _ in range(2):
    chosen, rejected = torch.randint(0, 64, (2, 4, 12), device="cuda")
    loss = -nn.functional.logsigmoid(reward(chosen) - reward(rejected)).mean()
    loss.backward()
    opt.step()
    opt.zero_grad()
    print(loss.item())
