# cause: embedding-streams-on-different-devices|adapter-weights-on-other-device
# guilty: prompt (prompt.expand, self.prompts)
# line: 48
# repair: in build_tuner pass device=model.embed.weight.device to PromptBank instead of the device of the last parameter OR move `prompt` to words.device before torch.cat
"""Prompt tuning for a frozen language model that is cut into two stages."""
import torch
import torch.nn as nn
import torch.nn.functional as F

TUNERS = {}


def register(name):
    def wrap(cls):
        TUNERS[name] = cls
        return cls
    return wrap


class StagedLM(nn.Module):
    def __init__(self, vocab=120, dim=32, depth=4):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim).to("cuda:0")
        make = lambda: nn.TransformerEncoderLayer(dim, 4, 64, batch_first=True, dropout=0.0)
        self.lower = nn.ModuleList(make() for _ in range(depth // 2)).to("cuda:0")
        self.upper = nn.ModuleList(make() for _ in range(depth // 2)).to("cuda:1")
        self.head = nn.Linear(dim, vocab).to("cuda:1")

    def run(self, hidden):
        for layer in self.lower:
            hidden = layer(hidden)
        hidden = hidden.to("cuda:1")
        for layer in self.upper:
            hidden = layer(hidden)
        return self.head(hidden)


@register("bank")
class PromptBank(nn.Module):
    def __init__(self, tasks, length, dim, device):
        super().__init__()
        self.prompts = nn.ParameterDict(
            {t: nn.Parameter(torch.randn(length, dim, device=device) * 0.02) for t in tasks})
        self.length = length

    def join(self, task, words):
        prompt = self.prompts[task].unsqueeze(0).expand(words.size(0), -1, -1)
        return torch.cat([prompt, words], dim=1)


def build_tuner(kind, model, tasks, length=5):
    for parameter in model.parameters():
        parameter.requires_grad_(False)
        device, dim = parameter.device, model.embed.embedding_dim
    return TUNERS[kind](tasks, length, dim, device)


class PromptTrainer:
    def __init__(self, model, tuner, lr=0.1):
        self.model, self.tuner = model, tuner
        self.optimizer = torch.optim.AdamW(tuner.parameters(), lr=lr)

    def step(self, task, ids):
        words = self.model.embed(ids.to(self.model.embed.weight.device))
        logits = self.model.run(self.tuner.join(task, words))[:, self.tuner.length:-1]
        target = ids[:, 1:].to(logits.device)
        loss = F.cross_entropy(logits.reshape(-1, logits.size(-1)), target.reshape(-1))
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss.item()


if __name__ == "__main__":
    torch.manual_seed(0)
    lm = StagedLM()
    trainer = PromptTrainer(lm, build_tuner("bank", lm, ["sst2", "rte"]))
    for step in range(4):
        print(step, trainer.step(("sst2", "rte")[step % 2], torch.randint(0, 120, (3, 12))))
