import torch
from fft_conv_pytorch import FFTConv2d

layer = FFTConv2d(3, 4, kernel_size=5, dilation=2, bias=True).to("cuda:0")
out = layer(torch.randn(2, 3, 24, 24, device="cuda:0"))
out.sum().backward()
print(out.shape)
print("SCENARIO OK")
