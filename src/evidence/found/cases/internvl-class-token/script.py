import tempfile

import torch
from transformers import InternVLConfig, InternVLForConditionalGeneration

config = InternVLConfig(
    vision_config={'model_type': 'internvl_vision', 'hidden_size': 128, 'num_hidden_layers': 2, 'intermediate_size': 512, 'image_size': [224, 224]},
    text_config={'model_type': 'qwen2', 'vocab_size': 512, 'hidden_size': 512, 'intermediate_size': 2752, 'num_hidden_layers': 2, 'max_window_layers': 2, 'layer_types': ['full_attention', 'full_attention'], 'pad_token_id': 0},
    image_token_id=511,
)
folder = tempfile.mkdtemp()
InternVLForConditionalGeneration(config).save_pretrained(folder)
model = InternVLForConditionalGeneration.from_pretrained(folder, device_map='auto', max_memory={0: 21200619, 1: '1000GB'})
inputs = dict(
    input_ids=torch.tensor([[10, 11] + [511] * 64 + [12, 13, 14, 15, 16, 17], [18, 19] + [511] * 64 + [20, 21, 22, 23, 24, 25]]).reshape(2, 72),
    attention_mask=torch.full((2, 72,), 1), pixel_values=torch.randn(2, 3, 224, 224), image_sizes=torch.full((2, 2,), 224),
    labels=torch.tensor([[10, 11] + [511] * 64 + [12, 13, 14, 15, 16, 17], [18, 19] + [511] * 64 + [20, 21, 22, 23, 24, 25]]).reshape(2, 72),
)
inputs = {name: x.to(model.device) if hasattr(x, 'to') else x for name, x in inputs.items()}
model(**inputs)
