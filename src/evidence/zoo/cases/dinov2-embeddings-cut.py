import tempfile

import torch
from accelerate import infer_auto_device_map
from transformers import Dinov2Config, Dinov2Model

config = Dinov2Config(
    hidden_size=16, num_hidden_layers=2, num_attention_heads=2, image_size=56, patch_size=14, mlp_ratio=2)
model = Dinov2Model(config)
size = sum(parameter.numel() * parameter.element_size() for parameter in model.parameters())
device_map = infer_auto_device_map(model, max_memory={0: int(0.75 * size), 1: 2 * size},
                                   no_split_module_classes=list(model._no_split_modules))
with tempfile.TemporaryDirectory() as folder:
    model.save_pretrained(folder)
    model = Dinov2Model.from_pretrained(folder, device_map=device_map).eval()
with torch.no_grad():
    states = model(torch.randn(1, 3, 56, 56, device=model.device)).last_hidden_state
print(states.shape)
print("SCENARIO OK")
