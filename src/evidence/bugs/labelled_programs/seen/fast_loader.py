# cause: meta-tensor-not-materialized|unmaterialized-weights
# guilty: model
"""Start-up without paying for random initialisation twice."""
import os
import tempfile
import time
import torch
from torch import nn


class TextCNN(nn.Module):
    def __init__(self, vocab=150, d=24, classes=4):
        super().__init__()
        self.embed = nn.Embedding(vocab, d)
        self.convs = nn.ModuleList(nn.Conv1d(d, 16, k, padding=k // 2) for k in (3, 5, 7))
        self.drop = nn.Dropout(0.1)
        self.out = nn.Linear(48, classes)

    def forward(self, ids):
        x = self.embed(ids).transpose(1, 2)
        x = torch.cat([c(x).relu().amax(2) for c in self.convs], dim=1)
        return self.out(self.drop(x))


def train_and_save(path, device):
    net = TextCNN().to(device)
    opt = torch.optim.Adam(net.parameters(), 1e-3)
    for _ in range(5):
        ids = torch.randint(0, 150, (16, 20), device=device)
        loss = nn.functional.cross_entropy(net(ids), ids[:, 0] % 4)
        opt.zero_grad()
        loss.backward()
        opt.step()
    torch.save(net.state_dict(), path)
    return loss.item()


def open_model(path, device):
    t0 = time.perf_counter()
    with torch.device("meta"):
        model = TextCNN()
    weights = torch.load(path, map_location=device, mmap=True, weights_only=True)
    model.load_state_dict(weights)
    model = model.to(device).eval()
    print(f"opened in {time.perf_counter() - t0:.3f}s")
    return model


def main():
    torch.manual_seed(0)
    device = torch.device("cuda:0")
    with tempfile.TemporaryDirectory() as tmp:
        path = os.path.join(tmp, "textcnn.pt")
        print("final loss", train_and_save(path, device))
        model = open_model(path, device)
    with torch.inference_mode():
        ids = torch.randint(0, 150, (3, 20)).to(device)
        print(model(ids).softmax(-1).cpu())


if __name__ == "__main__":
    main()
