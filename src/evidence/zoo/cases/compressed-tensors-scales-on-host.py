import torch
from compressed_tensors.quantization import QuantizationArgs
from compressed_tensors.quantization.lifecycle.forward import dequantize, quantize

kind = QuantizationArgs(num_bits=8, symmetric=False, strategy="channel")
weight = torch.randn(8, 6)
low, high = weight.amin(1, keepdim=True), weight.amax(1, keepdim=True)
scale = (high - low) / 255
zero_point = (-128 - low / scale).round()
packed = quantize(weight, scale, zero_point, kind, dtype=torch.int8).to("cuda:1")
restored = dequantize(packed, scale, zero_point, kind)
print((restored.cpu() - weight).abs().max() < 0.1)
print("SCENARIO OK")
