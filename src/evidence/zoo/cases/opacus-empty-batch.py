import torch
from opacus import PrivacyEngine

model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2)).to("cuda:0")
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
data = torch.utils.data.TensorDataset(torch.randn(20, 4), torch.arange(20) % 2)
loader = torch.utils.data.DataLoader(data, batch_size=1)
generator = torch.Generator().manual_seed(0)
model, optimizer, loader = PrivacyEngine().make_private(
    module=model, optimizer=optimizer, data_loader=loader, noise_multiplier=1.0, max_grad_norm=1.0)
torch.manual_seed(0)
sizes = []
for features, labels in loader:
    optimizer.zero_grad()
    logits = model(features.to("cuda:0"))
    torch.nn.functional.cross_entropy(logits, labels.to("cuda:0")).backward()
    optimizer.step()
    sizes.append(len(features))
print(sizes)
print("SCENARIO OK")
