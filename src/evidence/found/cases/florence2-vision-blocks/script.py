import tempfile

import torch
from transformers import Florence2Config, Florence2ForConditionalGeneration

config = Florence2Config(
    text_config={'model_type': 'bart', 'vocab_size': 512, 'encoder_layers': 2, 'encoder_ffn_dim': 512, 'decoder_layers': 2, 'decoder_ffn_dim': 512, 'd_model': 128},
    vision_config={'model_type': 'florence_vision', 'depths': [1, 1, 2, 1], 'embed_dim': [16, 32, 64, 128], 'projection_dim': 128}, image_token_id=511,
)
folder = tempfile.mkdtemp()
Florence2ForConditionalGeneration(config).save_pretrained(folder)
model = Florence2ForConditionalGeneration.from_pretrained(folder, device_map='auto', max_memory={0: 1713204, 1: '1000GB'})
inputs = dict(
    input_ids=torch.tensor([[10, 11, 511, 511, 511, 511, 511, 12, 13, 14, 15, 16, 2], [18, 19, 511, 511, 511, 511, 511, 20, 21, 22, 23, 24, 2]]).reshape(2, 13),
    attention_mask=torch.full((2, 13,), 1), decoder_input_ids=torch.tensor([[10, 11, 12, 13, 14, 15, 16, 17], [18, 19, 20, 21, 22, 23, 24, 25]]).reshape(2, 8),
    pixel_values=torch.randn(2, 3, 64, 64)
)
inputs = {name: x.to(model.device) if hasattr(x, 'to') else x for name, x in inputs.items()}
model(**inputs)
