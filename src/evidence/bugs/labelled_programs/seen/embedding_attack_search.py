# cause: hard-coded-device|tensor-created-on-wrong-device
# guilty: optim_embeds
# after: SchwinnL/circuit-breakers-eval#2
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn

@dataclass
class SoftOptConfig:
    num_steps: int = 4
    optim_len: int = 5
    lr: float = 0.05
    device: str = "cuda:0"

class SplitLM(nn.Module):
    def __init__(self, vocab, dim, layers, devices):
        super().__init__()
        self.devices = devices
        self.embed_tokens = nn.Embedding(vocab, dim).to(devices[0])
        self.layers = nn.ModuleList([nn.TransformerEncoderLayer(dim, 4, 64, dropout=0.0, batch_first=True) for _ in range(layers)])
        for i, layer in enumerate(self.layers):
            layer.to(self.where(i))
        self.lm_head = nn.Linear(dim, vocab).to(devices[-1])

    def where(self, i):
        return self.devices[i * len(self.devices) // len(self.layers)]

    def get_input_embeddings(self):
        return self.embed_tokens

    def forward(self, inputs_embeds):
        x = inputs_embeds
        for i, layer in enumerate(self.layers):
            x = layer(x.to(self.where(i)))
        return self.lm_head(x.to(self.devices[-1]))

class SingleBehaviorAttack:
    def __init__(self, model, config):
        self.model, self.config = model.requires_grad_(False), config
        self.embed = model.get_input_embeddings()

    def ids(self, row):
        return torch.tensor([row], device=self.embed.weight.device)

    def run(self, before, target):
        cfg, embed = self.config, self.embed
        before_embeds, target_ids = embed(self.ids(before)), self.ids(target)
        target_embeds = embed(target_ids)
        optim_embeds = torch.randn(1, cfg.optim_len, embed.embedding_dim, device=cfg.device) * 0.1
        optim_embeds.requires_grad_(True)
        optimizer = torch.optim.Adam([optim_embeds], lr=cfg.lr)
        losses = []
        for _ in range(cfg.num_steps):
            optimizer.zero_grad()
            input_embeds = torch.cat([before_embeds, optim_embeds, target_embeds], dim=1)
            logits = self.model(inputs_embeds=input_embeds)
            shift = input_embeds.shape[1] - target_ids.shape[1]
            pred = logits[:, shift - 1:-1].flatten(0, 1)
            loss = F.cross_entropy(pred, target_ids.flatten().to(pred.device))
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        return losses

if __name__ == "__main__":
    # the second card holds the first half: the first one also drives the display
    model = SplitLM(vocab=50, dim=32, layers=4, devices=["cuda:1", "cuda:0"])
    attack = SingleBehaviorAttack(model, SoftOptConfig())
    print(attack.run(before=[3, 9, 4, 17], target=[21, 8, 2]))
