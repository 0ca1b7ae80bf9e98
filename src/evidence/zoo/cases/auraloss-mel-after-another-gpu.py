import torch
from auraloss.freq import STFTLoss

network = torch.nn.Conv1d(1, 1, 9, padding=4).to("cuda:0")
criterion = STFTLoss(fft_size=64, hop_size=16, win_length=64, sample_rate=8000, scale="mel", n_bins=8,
                     device="cuda:0")
noisy, clean = torch.randn(2, 2, 1, 400, device="cuda:0")
print(criterion(network(noisy), clean).item())

network, criterion = network.to("cuda:1"), criterion.to("cuda:1")
noisy, clean = torch.randn(2, 2, 1, 400, device="cuda:1")
loss = criterion(network(noisy), clean)
loss.backward()
print(loss.item())
print("SCENARIO OK")
