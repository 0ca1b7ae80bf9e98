# cause: device-map-incomplete-or-wrong
# guilty: self.norm
import torch
import torch.nn as nn


class Encoder(nn.Module):
    def __init__(self, vocab=120, d=32, depth=4, classes=6):
        super().__init__()
        self.embed = nn.Embedding(vocab, d)
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(d, 4, 2 * d, dropout=0.0, batch_first=True, norm_first=True)
            for _ in range(depth))
        self.norm = nn.LayerNorm(d)
        self.classifier = nn.Linear(d, classes)

    def forward(self, ids):
        x = self.embed(ids)
        for layer in self.layers:
            x = layer(x.to(next(layer.parameters()).device))
        x = self.norm(x)
        return self.classifier(x.mean(1).to(self.classifier.weight.device))


DEVICE_MAP = {
    "embed": "cuda:0",
    "layers.0": "cuda:0",
    "layers.1": "cuda:0",
    "layers.2": "cuda:1",
    "layers.3": "cuda:1",
    "classifier": "cuda:1",
}


class Placed:
    def __init__(self, model, device_map):
        for name, device in device_map.items():
            model.get_submodule(name).to(device)
        self.model = model
        self.input_device = torch.device(device_map["embed"])
        self.output_device = torch.device(device_map["classifier"])

    def loss(self, ids, labels):
        logits = self.model(ids.to(self.input_device))
        return nn.functional.cross_entropy(logits, labels.to(self.output_device))

    def step(self, opt, ids, labels):
        opt.zero_grad()
        loss = self.loss(ids, labels)
        loss.backward()
        opt.step()
        return loss.detach().cpu()


if __name__ == "__main__":
    torch.manual_seed(0)
    runner = Placed(Encoder(), DEVICE_MAP)
    opt = torch.optim.SGD(runner.model.parameters(), lr=0.1)
    history = []
    for _ in range(5):
        ids = torch.randint(0, 120, (8, 14))
        history.append(runner.step(opt, ids, ids[:, 0] % 6))
    print(torch.stack(history).tolist())
