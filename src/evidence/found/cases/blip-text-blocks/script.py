import tempfile

import torch
from transformers import BlipConfig, BlipForConditionalGeneration

config = BlipConfig(
    text_config={'model_type': 'blip_text_model', 'vocab_size': 512, 'hidden_size': 96, 'encoder_hidden_size': 96, 'intermediate_size': 384, 'projection_dim': 96, 'num_hidden_layers': 2, 'bos_token_id': 511},
    vision_config={'model_type': 'blip_vision_model', 'hidden_size': 96, 'intermediate_size': 384, 'projection_dim': 64, 'num_hidden_layers': 2, 'image_size': 192},
    projection_dim=64, image_text_hidden_size=32,
)
folder = tempfile.mkdtemp()
BlipForConditionalGeneration(config).save_pretrained(folder)
model = BlipForConditionalGeneration.from_pretrained(folder, device_map='auto', max_memory={0: 1889496, 1: "1000GB"})
inputs = dict(
    input_ids=torch.tensor([[10, 11, 12, 13, 14, 15, 16, 2], [18, 19, 20, 21, 22, 23, 24, 2]]).reshape(2, 8),
    attention_mask=torch.full((2, 8,), 1), pixel_values=torch.randn(2, 3, 192, 192),
    labels=torch.tensor([[10, 11, 12, 13, 14, 15, 16, 2], [18, 19, 20, 21, 22, 23, 24, 2]]).reshape(2, 8),
)
inputs = {name: x.to(model.device) if hasattr(x, 'to') else x for name, x in inputs.items()}
model(**inputs)
