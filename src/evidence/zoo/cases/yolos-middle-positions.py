import tempfile

import torch
from accelerate import infer_auto_device_map
from transformers import YolosConfig, YolosModel

config = YolosConfig(
    hidden_size=16, num_hidden_layers=3, num_attention_heads=2, image_size=[32, 32], patch_size=8,
    intermediate_size=32, num_detection_tokens=4, use_mid_position_embeddings=True)
model = YolosModel(config, add_pooling_layer=False)
size = sum(parameter.numel() * parameter.element_size() for parameter in model.parameters())
device_map = infer_auto_device_map(model, max_memory={0: int(0.8 * size), 1: 2 * size},
                                   no_split_module_classes=list(model._no_split_modules))
with tempfile.TemporaryDirectory() as folder:
    model.save_pretrained(folder)
    model = YolosModel.from_pretrained(folder, add_pooling_layer=False, device_map=device_map).eval()
with torch.no_grad():
    states = model(torch.randn(1, 3, 32, 32, device=model.device)).last_hidden_state
print(states.shape)
print("SCENARIO OK")
