import torch
from asteroid.dsp.overlap_add import LambdaOverlapAdd

network = torch.nn.Conv1d(1, 2, 9, padding=4).to("cuda:0")
separate = LambdaOverlapAdd(
    nnet=lambda wave: network(wave.unsqueeze(1)), n_src=2, window_size=200, window="hann", reorder_chunks=False
)
with torch.no_grad():
    sources = separate(torch.randn(1, 1, 1000, device="cuda:0"))
print(sources.shape)
print("SCENARIO OK")
