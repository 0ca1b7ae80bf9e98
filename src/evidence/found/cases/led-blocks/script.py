import tempfile

import torch
from transformers import LEDConfig, LEDForConditionalGeneration

config = LEDConfig(
    vocab_size=512, encoder_layers=2, encoder_ffn_dim=512, decoder_layers=2, decoder_ffn_dim=512,
    d_model=128, attention_window=[512, 512],
)
folder = tempfile.mkdtemp()
LEDForConditionalGeneration(config).save_pretrained(folder)
model = LEDForConditionalGeneration.from_pretrained(folder, device_map='auto', max_memory={0: 10581072, 1: '1000GB'})
inputs = dict(
    input_ids=torch.tensor([[10, 11, 12, 13, 14, 15, 16, 2], [18, 19, 20, 21, 22, 23, 24, 2]]).reshape(2, 8),
    attention_mask=torch.full((2, 8,), 1),
    decoder_input_ids=torch.tensor([[10, 11, 12, 13, 14, 15, 16, 17], [18, 19, 20, 21, 22, 23, 24, 25]]).reshape(2, 8),
)
inputs = {name: x.to(model.device) if hasattr(x, 'to') else x for name, x in inputs.items()}
model(**inputs)
