# cause: embedding-streams-on-different-devices
# guilty: img
import torch
from torch import nn
from transformers import (CLIPTextConfig, CLIPTextModelWithProjection, CLIPVisionConfig,
                          CLIPVisionModelWithProjection)

torch.manual_seed(28)
small = dict(hidden_size=16, intermediate_size=32, num_hidden_layers=1, num_attention_heads=2,
             projection_dim=8)
reader = CLIPTextModelWithProjection(CLIPTextConfig(
    vocab_size=50, max_position_embeddings=16, bos_token_id=0, pad_token_id=1, eos_token_id=2, **small))
viewer = CLIPVisionModelWithProjection(CLIPVisionConfig(image_size=16, patch_size=8, **small))
reader.to("cuda:0").eval()
viewer.to("cuda:1").eval()


class Judge(nn.Module):
    """Does the caption fit the picture?"""

    def __init__(self, dim=8):
        super().__init__()
        self.mlp = nn.Sequential(nn.Linear(3 * dim, 16), nn.ReLU(), nn.Linear(16, 1))

    def forward(self, txt, img):
        prod = txt * img
        return self.mlp(torch.cat([txt, img, prod], dim=-1)).squeeze(-1)


judge = Judge().to("cuda:0")
opt = torch.optim.Adam(judge.parameters(), lr=1e-3)
captions = torch.tensor([[0, 11, 12, 13, 49], [0, 21, 22, 23, 49]])
pictures = torch.rand(2, 3, 16, 16)
fits = torch.tensor([1.0, 0.0], device="cuda:0")

for step in range(2):
    with torch.no_grad():
        t = reader(input_ids=captions.to("cuda:0")).text_embeds
        v = viewer(pixel_values=pictures.to("cuda:1")).image_embeds
    loss = nn.functional.binary_cross_entropy_with_logits(judge(t, v), fits)
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(step, loss.item())
