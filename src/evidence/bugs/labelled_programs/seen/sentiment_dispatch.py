# cause: dispatched-model-moved
# guilty: self.upper
import torch
import torch.nn as nn
from accelerate import dispatch_model


class Sentiment(nn.Module):
    def __init__(self, vocab=200, d=24):
        super().__init__()
        self.embed = nn.EmbeddingBag(vocab, d)
        self.lower = nn.Sequential(nn.Linear(d, 48), nn.ReLU())
        self.upper = nn.Sequential(nn.Linear(48, 48), nn.ReLU())
        self.out = nn.Linear(48, 2)

    def forward(self, ids):
        return self.out(self.upper(self.lower(self.embed(ids))))


def pretrain(model, steps=5):
    opt = torch.optim.Adam(model.parameters(), 1e-2)
    for _ in range(steps):
        ids = torch.randint(0, 200, (16, 10))
        y = (ids.float().mean(1) > 100).long()
        loss = nn.functional.cross_entropy(model(ids), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
    return model.eval()


class Pipeline:
    def __init__(self, model, device):
        self.device = torch.device(device)
        self.model = model.to(self.device)

    @torch.inference_mode()
    def __call__(self, texts):
        ids = torch.tensor([[hash_word(w) for w in t.split()[:4]] for t in texts])
        probs = self.model(ids.to(self.device)).softmax(-1)
        return probs[:, 1].cpu().tolist()


def hash_word(word):
    return sum(ord(c) * (i + 1) for i, c in enumerate(word)) % 200


def main():
    torch.manual_seed(0)
    model = pretrain(Sentiment())
    model = dispatch_model(model, device_map={"embed": "cuda:0", "lower": "cuda:0",
                                              "upper": "cuda:1", "out": "cuda:1"})
    for p in model.parameters():
        p.requires_grad_(False)
    pipe = Pipeline(model, "cuda:0")
    print(pipe(["a truly great film", "dull and far too", "the best of all"]))


if __name__ == "__main__":
    main()
