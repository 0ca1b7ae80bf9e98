# cause: offload-hook-bypassed
# guilty: gain (self.backbone.norm.weight)
import torch
from torch import nn
from accelerate import cpu_offload


class Backbone(nn.Module):
    def __init__(self, vocab, d):
        super().__init__()
        self.tokens = nn.Embedding(vocab, d)
        self.layers = nn.ModuleList(
            nn.Sequential(nn.LayerNorm(d), nn.Linear(d, 2 * d), nn.GELU(), nn.Linear(2 * d, d))
            for _ in range(3))
        self.norm = nn.LayerNorm(d)

    def forward(self, ids):
        h = self.tokens(ids)
        for f in self.layers:
            h = h + f(h)
        return self.norm(h)


class MaskedLM(nn.Module):
    def __init__(self, vocab=90, d=32):
        super().__init__()
        self.backbone = Backbone(vocab, d)
        self.bias = nn.Linear(d, 1)
        self.out = nn.Linear(d, vocab, bias=False)

    def vocab_scores(self, h):
        gain = self.backbone.norm.weight
        return self.out(h * gain)

    def forward(self, ids):
        h = self.backbone(ids)
        return self.vocab_scores(h) + self.bias(h)


class Server:
    def __init__(self, model, device):
        self.device = torch.device(device)
        self.model = cpu_offload(model.eval(), execution_device=self.device)
        self.queue = []

    def submit(self, ids):
        self.queue.append(torch.tensor(ids))

    @torch.no_grad()
    def flush(self):
        width = max(len(q) for q in self.queue)
        batch = torch.stack([nn.functional.pad(q, (0, width - len(q))) for q in self.queue])
        scores = self.model(batch.to(self.device))
        self.queue.clear()
        return scores.topk(2, dim=-1).indices.cpu()


if __name__ == "__main__":
    server = Server(MaskedLM(), "cuda:0")
    server.submit([4, 8, 15])
    server.submit([16, 23, 42, 7])
    print(server.flush().shape)
