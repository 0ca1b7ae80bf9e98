# cause: generation-helper-on-wrong-device
# guilty: best (scores, judge scores)
# line: 63
# repair: bring the judge's answer to the device of the samples: Judge.score returns scores.to(ids.device), OR best = ....argmax(1).to(samples.device) in Writer.write
"""Best-of-n sampling: the writer is cut over the cards, a judge on the second card ranks."""
import torch
import torch.nn as nn


class WriterLM(nn.Module):
    def __init__(self, vocab=48, dim=24):
        super().__init__()
        self.vocab = vocab
        self.embed = nn.Embedding(vocab, dim).to("cuda:0")
        self.low = nn.GRU(dim, dim, batch_first=True).to("cuda:0")
        self.high = nn.GRU(dim, dim, batch_first=True).to("cuda:1")
        self.head = nn.Linear(dim, vocab).to("cuda:1")

    def forward(self, ids):
        x = self.low(self.embed(ids))[0]
        return self.head(self.high(x.to("cuda:1"))[0]).to(ids.device)


class Judge:
    def __init__(self, vocab, device, dim=16):
        self.device = device
        self.bag = nn.EmbeddingBag(vocab, dim).to(device)
        self.value = nn.Linear(dim, 1).to(device)

    @torch.no_grad()
    def score(self, ids, chunk=8):
        scores = [self.value(self.bag(part.to(self.device))) for part in ids.split(chunk)]
        return torch.cat(scores).squeeze(-1)


class Sampler:
    def __init__(self, model, temperature=0.9, top_k=10):
        self.model, self.temperature, self.top_k = model, temperature, top_k

    def filtered(self, logits):
        limit = logits.topk(self.top_k).values[:, -1:]
        return logits.masked_fill(logits < limit, float("-inf"))

    @torch.no_grad()
    def extend(self, ids, steps):
        for _ in range(steps):
            logits = self.filtered(self.model(ids)[:, -1] / self.temperature)
            ids = torch.cat([ids, torch.multinomial(logits.softmax(-1), 1)], dim=1)
        return ids


class Writer:
    def __init__(self, model, judge, n=4):
        self.sampler, self.judge, self.n = Sampler(model), judge, n
        self.entry = model.embed.weight.device

    def write(self, prompts, steps=6, rounds=2):
        ids = prompts.to(self.entry)
        for _ in range(rounds):
            samples = self.sampler.extend(ids.repeat_interleave(self.n, 0), steps)
            best = self.judge.score(samples).view(-1, self.n).argmax(1)
            rows = torch.arange(ids.size(0), device=samples.device)
            ids = samples.view(ids.size(0), self.n, -1)[rows, best]
        return ids


if __name__ == "__main__":
    torch.manual_seed(0)
    lm = WriterLM()
    writer = Writer(lm, Judge(lm.vocab, "cuda:1"))
    for line in writer.write(torch.tensor([[1, 2], [3, 4]])).tolist():
        print(line)
