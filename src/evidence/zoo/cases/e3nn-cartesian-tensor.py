import torch

torch.serialization.add_safe_globals([slice])
from e3nn.io import CartesianTensor  # noqa: E402

device = torch.device("cuda:0")
stress = CartesianTensor("ij=ji")
head = torch.nn.Linear(7, 9).to(device)
tensors = head(torch.randn(5, 7, device=device)).view(5, 3, 3)
irreps = stress.from_cartesian((tensors + tensors.mT) / 2)
irreps.square().sum().backward()
print(irreps.shape, head.weight.grad.norm())
print("SCENARIO OK")
