# cause: module-left-on-other-device
# guilty: self.tokenizers (self.weight or weight)
# after: rish-16/tokenlearner-pytorch#4
import torch
import torch.nn as nn

class SpatialAttention(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Sequential(nn.Conv2d(2, 1, kernel_size=3, padding=1), nn.BatchNorm2d(1), nn.ReLU())
        self.sgap = nn.AvgPool2d(2)

    def forward(self, x):
        b, h, w, c = x.shape
        x = x.view(b, c, h, w)
        mx = torch.max(x, 1)[0].unsqueeze(1)
        avg = torch.mean(x, 1).unsqueeze(1)
        combined = torch.cat([mx, avg], dim=1)
        fmap = self.conv(combined)
        weight_map = torch.sigmoid(fmap)
        return (x * weight_map).mean(dim=(-2, -1)), x * weight_map

class TokenLearner(nn.Module):
    def __init__(self, S):
        super().__init__()
        self.S = S
        self.tokenizers = [SpatialAttention() for _ in range(S)]

    def forward(self, x):
        b, _, _, c = x.shape
        tokens = torch.empty(b, self.S, c, device=x.device)
        for i in range(self.S):
            ai, _ = self.tokenizers[i](x)
            tokens[:, i, :] = ai
        return tokens

class TokenLearnerViT(nn.Module):
    def __init__(self, dim=16, n_tokens=4, classes=10):
        super().__init__()
        self.patch = nn.Conv2d(3, dim, 4, stride=4)
        self.learner = TokenLearner(n_tokens)
        self.encoder = nn.TransformerEncoderLayer(dim, 4, 32, dropout=0.0, batch_first=True)
        self.head = nn.Linear(dim, classes)

    def forward(self, images):
        grid = self.patch(images).permute(0, 2, 3, 1)
        tokens = self.learner(grid.contiguous())
        return self.head(self.encoder(tokens).mean(dim=1))

class Runner:
    def __init__(self, model, device):
        self.device = torch.device(device)
        self.model = model.to(self.device)
        self.optim = torch.optim.SGD(self.model.parameters(), lr=0.01)
        self.criterion = nn.CrossEntropyLoss()

    def run(self, steps):
        for step in range(steps):
            images = torch.randn(4, 3, 32, 32, device=self.device)
            labels = torch.randint(0, 10, (4,), device=self.device)
            loss = self.criterion(self.model(images), labels)
            self.optim.zero_grad()
            loss.backward()
            self.optim.step()
            print(step, loss.item())

if __name__ == "__main__":
    torch.manual_seed(0)
    Runner(TokenLearnerViT(), "cuda:0").run(2)
