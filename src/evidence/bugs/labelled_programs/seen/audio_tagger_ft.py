# cause: loss-or-label-on-other-device
# guilty: self.pos_weight
import torch
import torch.nn as nn


def save_pretrained(path):
    net = build(12)
    counts = torch.tensor([900.0, 40, 75, 300, 22, 610, 55, 130, 17, 88, 240, 31])
    torch.save({"weights": net.state_dict(), "pos_weight": counts.sum() / counts / 12}, path)


def build(n):
    return nn.Sequential(
        nn.Conv1d(40, 64, 5, padding=2), nn.ReLU(),
        nn.Conv1d(64, 64, 5, padding=2), nn.ReLU(),
        nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(64, n),
    )


class Trainer:
    def __init__(self, path, gpu):
        self.device = torch.device("cuda", gpu)
        ck = torch.load(path, map_location="cpu")
        self.net = build(12)
        self.net.load_state_dict(ck["weights"])
        self.net.to(self.device)
        self.pos_weight = ck["pos_weight"]
        self.opt = torch.optim.AdamW(self.net.parameters(), lr=2e-4)

    def step(self, mel, tags):
        mel, tags = mel.to(self.device), tags.to(self.device)
        logits = self.net(mel)
        loss = nn.functional.binary_cross_entropy_with_logits(logits, tags, pos_weight=self.pos_weight)
        self.opt.zero_grad()
        loss.backward()
        self.opt.step()
        return loss.item()


save_pretrained("tagger.pt")
trainer = Trainer("tagger.pt", gpu=0)
for i in range(3):
    mel = torch.randn(8, 40, 100)
    tags = (torch.rand(8, 12) < 0.2).float()
    print(trainer.step(mel, tags))
