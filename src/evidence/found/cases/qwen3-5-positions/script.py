import tempfile

import torch
from transformers import Qwen3_5Config, Qwen3_5ForConditionalGeneration

config = Qwen3_5Config(
    text_config={'model_type': 'qwen3_5_text', 'vocab_size': 512, 'hidden_size': 2048, 'intermediate_size': 6144, 'num_hidden_layers': 2, 'head_dim': 128, 'linear_key_head_dim': 64, 'linear_value_head_dim': 64, 'layer_types': ['linear_attention', 'full_attention'], 'pad_token_id': 0},
    vision_config={'model_type': 'qwen3_5_vision', 'depth': 2, 'hidden_size': 576, 'intermediate_size': 2152, 'out_hidden_size': 2048}, image_token_id=510, video_token_id=511, vision_start_token_id=508, vision_end_token_id=509,
)
folder = tempfile.mkdtemp()
Qwen3_5ForConditionalGeneration(config).save_pretrained(folder)
model = Qwen3_5ForConditionalGeneration.from_pretrained(folder, device_map='auto', max_memory={0: 225893587, 1: '1000GB'})
inputs = dict(
    input_ids=torch.tensor([[10, 11, 510, 510, 510, 510, 511, 511, 511, 511, 12, 13, 14, 15, 16, 17], [18, 19, 510, 510, 510, 510, 511, 511, 511, 511, 20, 21, 22, 23, 24, 25]]).reshape(2, 16), attention_mask=torch.full((2, 16,), 1), pixel_values=torch.randn(32, 1536),
    image_grid_thw=torch.tensor([1, 4, 4]).expand(2, 3).clone(), pixel_values_videos=torch.randn(32, 1536), video_grid_thw=torch.tensor([1, 4, 4]).expand(2, 3).clone(), mm_token_type_ids=torch.tensor([0, 0, 1, 1, 1, 1, 2, 2, 2, 2] + [0] * 6).expand(2, 16).clone(),
    decoder_input_ids=torch.tensor([[10, 11, 510, 510, 510, 510, 511, 511, 511, 511, 12, 13, 14, 15, 16, 17], [18, 19, 510, 510, 510, 510, 511, 511, 511, 511, 20, 21, 22, 23, 24, 25]]).reshape(2, 16),
)
inputs = {name: x.to(model.device) if hasattr(x, 'to') else x for name, x in inputs.items()}
model(**inputs)
