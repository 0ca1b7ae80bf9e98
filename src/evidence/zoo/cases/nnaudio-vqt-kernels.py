import torch
from nnAudio.features.vqt import VQT

transform = VQT(sr=8000, hop_length=256, n_bins=24, fmin=110, verbose=False).to("cuda:0")
sound = torch.randn(1, 8000, device="cuda:0")
spectrogram = transform(sound)
print(spectrogram.shape)
print("SCENARIO OK")
