# cause: tensor-created-on-wrong-device|adapter-weights-on-other-device|embedding-streams-on-different-devices
# guilty: soft (self.prompt, self.prompt.expand)
# line: 35
# repair: in PromptInverter.__init__ take the device of the embedding: device = lm.get_input_embeddings().weight.device (not that of the last parameter) OR in forward use soft.to(words.device)
"""Tune a continuous prompt against a GPT-2 that is dispatched over two cards."""
import torch
from torch import nn
from accelerate import dispatch_model
from transformers import GPT2Config, GPT2LMHeadModel


def build_lm():
    cfg = GPT2Config(vocab_size=150, n_positions=64, n_embd=32, n_layer=4, n_head=4,
                     bos_token_id=0, eos_token_id=0)
    lm = GPT2LMHeadModel(cfg)
    lm.requires_grad_(False)
    plan = {"transformer.wte": "cuda:0", "transformer.wpe": "cuda:0", "transformer.drop": "cuda:0"}
    for i in range(4):
        plan[f"transformer.h.{i}"] = f"cuda:{i // 2}"
    plan["transformer.ln_f"] = "cuda:1"
    plan["lm_head"] = "cuda:0"
    return dispatch_model(lm, device_map=plan)


class PromptInverter(nn.Module):
    def __init__(self, lm, length=5):
        super().__init__()
        object.__setattr__(self, "lm", lm)
        device = list(lm.parameters())[-1].device
        self.prompt = nn.Parameter(torch.randn(1, length, lm.config.n_embd, device=device) * 0.02)

    def forward(self, ids):
        words = self.lm.get_input_embeddings()(ids)
        soft = self.prompt.expand(ids.shape[0], -1, -1)
        embeds = torch.cat([soft, words], dim=1)
        logits = self.lm(inputs_embeds=embeds).logits
        return logits[:, self.prompt.shape[1] - 1:-1]


def fit(inverter, target, steps=4):
    opt = torch.optim.Adam(inverter.parameters(), lr=0.05)
    for _ in range(steps):
        logits = inverter(target)
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), target.to(logits.device).flatten())
        opt.zero_grad()
        loss.backward()
        opt.step()
    return loss.item()


if __name__ == "__main__":
    torch.manual_seed(0)
    lm = build_lm()
    target = torch.randint(1, 150, (2, 9), device="cuda:0")
    print("fitted", fit(PromptInverter(lm), target))
