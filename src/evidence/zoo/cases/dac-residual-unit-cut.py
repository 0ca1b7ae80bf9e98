import torch
from accelerate import dispatch_model, infer_auto_device_map
from transformers import DacConfig, DacModel

config = DacConfig(encoder_hidden_size=8, downsampling_ratios=[2, 2], decoder_hidden_size=32, n_codebooks=2,
                   codebook_size=16, codebook_dim=4)
model = DacModel(config).eval()
size = sum(parameter.numel() * parameter.element_size() for parameter in model.encoder.parameters())
device_map = infer_auto_device_map(model, max_memory={0: int(0.6 * size), 1: 100 * size},
                                   no_split_module_classes=model._no_split_modules)
model = dispatch_model(model, device_map, main_device=0)
with torch.no_grad():
    codes = model.encode(torch.randn(1, 1, 256, device="cuda:0")).audio_codes
print(codes.shape)
print("SCENARIO OK")
