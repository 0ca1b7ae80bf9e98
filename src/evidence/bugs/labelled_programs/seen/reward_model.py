# cause: dispatched-model-moved
# guilty: ?
"""Train a reward head on pairs of answers; the GPT-2 trunk is dispatched over both cards."""
import torch
from accelerate import dispatch_model
from torch import nn
from transformers import GPT2Config, GPT2Model

MAIN = torch.device("cuda:0")


def trunk():
    cfg = GPT2Config(vocab_size=90, n_positions=64, n_embd=32, n_layer=4, n_head=4,
                     resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0)
    plan = {"wte": "cuda:0", "wpe": "cuda:0", "drop": "cuda:0", "h.0": "cuda:0", "h.1": "cuda:0",
            "h.2": "cuda:1", "h.3": "cuda:1", "ln_f": "cuda:1"}
    return dispatch_model(GPT2Model(cfg), device_map=plan)


class RewardModel(nn.Module):
    def __init__(self, backbone):
        super().__init__()
        self.backbone = backbone
        self.value = nn.Sequential(nn.Linear(backbone.config.n_embd, 16), nn.Tanh(), nn.Linear(16, 1))

    def forward(self, ids):
        hidden = self.backbone(input_ids=ids, use_cache=False).last_hidden_state
        return self.value(hidden[:, -1].to(self.value[0].weight.device)).squeeze(-1)


def make_trainer(model, lr):
    model.to(MAIN)
    for p in model.backbone.parameters():
        p.requires_grad_(False)
    optimizer = torch.optim.AdamW(model.value.parameters(), lr=lr)

    def step(chosen, rejected):
        margin = model(chosen.to(MAIN)) - model(rejected.to(MAIN))
        loss = -nn.functional.logsigmoid(margin).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.item()

    return step


def pairs(n):
    gen = torch.Generator().manual_seed(0)
    for _ in range(n):
        yield torch.randint(0, 45, (4, 10), generator=gen), torch.randint(45, 90, (4, 10), generator=gen)


if __name__ == "__main__":
    torch.manual_seed(0)
    train_step = make_trainer(RewardModel(trunk()), lr=1e-3)
    print([round(train_step(a, b), 4) for a, b in pairs(3)])
