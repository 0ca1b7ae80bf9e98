import tempfile

import torch
from transformers import Qwen3VLConfig, Qwen3VLForConditionalGeneration

config = Qwen3VLConfig(
    text_config={'model_type': 'qwen3_vl_text', 'vocab_size': 512, 'hidden_size': 256, 'intermediate_size': 1376, 'num_hidden_layers': 2, 'num_attention_heads': 2, 'num_key_value_heads': 2, 'pad_token_id': 0},
    vision_config={'model_type': 'qwen3_vl_vision', 'depth': 2, 'hidden_size': 72, 'intermediate_size': 269, 'num_heads': 1, 'out_hidden_size': 256}, image_token_id=510, video_token_id=511, vision_start_token_id=508, vision_end_token_id=509,
)
folder = tempfile.mkdtemp()
Qwen3VLForConditionalGeneration(config).save_pretrained(folder)
model = Qwen3VLForConditionalGeneration.from_pretrained(folder, device_map='auto', max_memory={0: 5894985, 1: '1000GB'})
inputs = dict(
    input_ids=torch.tensor([[10, 11, 510, 510, 510, 510, 511, 511, 511, 511, 12, 13, 14, 15, 16, 17], [18, 19, 510, 510, 510, 510, 511, 511, 511, 511, 20, 21, 22, 23, 24, 25]]).reshape(2, 16), attention_mask=torch.full((2, 16,), 1), pixel_values=torch.randn(32, 1536),
    image_grid_thw=torch.tensor([1, 4, 4]).expand(2, 3).clone(), pixel_values_videos=torch.randn(32, 1536), video_grid_thw=torch.tensor([1, 4, 4]).expand(2, 3).clone(), mm_token_type_ids=torch.tensor([0, 0, 1, 1, 1, 1, 2, 2, 2, 2] + [0] * 6).expand(2, 16).clone(),
    labels=torch.tensor([[10, 11, 510, 510, 510, 510, 511, 511, 511, 511, 12, 13, 14, 15, 16, 17], [18, 19, 510, 510, 510, 510, 511, 511, 511, 511, 20, 21, 22, 23, 24, 25]]).reshape(2, 16),
)
inputs = {name: x.to(model.device) if hasattr(x, 'to') else x for name, x in inputs.items()}
model(**inputs)
