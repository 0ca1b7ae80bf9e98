import tempfile

import torch
from transformers import PegasusConfig, PegasusForConditionalGeneration

config = PegasusConfig(
    vocab_size=512, encoder_layers=2, encoder_ffn_dim=512, decoder_layers=2, decoder_ffn_dim=512,
    d_model=128,
)
folder = tempfile.mkdtemp()
PegasusForConditionalGeneration(config).save_pretrained(folder)
model = PegasusForConditionalGeneration.from_pretrained(folder, device_map='auto', max_memory={0: 1568000, 1: '1000GB'})
inputs = dict(
    input_ids=torch.tensor([[10, 11, 12, 13, 14, 15, 16, 1], [18, 19, 20, 21, 22, 23, 24, 1]]).reshape(2, 8),
    attention_mask=torch.full((2, 8,), 1),
    decoder_input_ids=torch.tensor([[10, 11, 12, 13, 14, 15, 16, 17], [18, 19, 20, 21, 22, 23, 24, 25]]).reshape(2, 8),
)
inputs = {name: x.to(model.device) if hasattr(x, 'to') else x for name, x in inputs.items()}
model(**inputs)
