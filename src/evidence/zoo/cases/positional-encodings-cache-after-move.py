import torch
from positional_encodings.torch_encodings import PositionalEncoding1D, Summer

encoder = torch.nn.Sequential(torch.nn.Linear(6, 8), Summer(PositionalEncoding1D(8))).to("cuda:0")
with torch.no_grad():
    print(encoder(torch.randn(2, 5, 6, device="cuda:0")).mean())
encoder.to("cuda:1")
print(encoder(torch.randn(2, 5, 6, device="cuda:1")).shape)
print("SCENARIO OK")
