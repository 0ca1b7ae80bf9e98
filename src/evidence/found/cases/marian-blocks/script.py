import tempfile

import torch
from transformers import MarianConfig, MarianMTModel

config = MarianConfig(
    vocab_size=512, decoder_vocab_size=512, encoder_layers=2, encoder_ffn_dim=512, decoder_layers=2, decoder_ffn_dim=512, d_model=128,
    decoder_start_token_id=511, pad_token_id=511,
)
folder = tempfile.mkdtemp()
MarianMTModel(config).save_pretrained(folder)
model = MarianMTModel.from_pretrained(folder, device_map='auto', max_memory={0: 2194304, 1: '1000GB'})
inputs = dict(
    input_ids=torch.tensor([[10, 11, 12, 13, 14, 15, 16, 0], [18, 19, 20, 21, 22, 23, 24, 0]]).reshape(2, 8), attention_mask=torch.full((2, 8,), 1),
    decoder_input_ids=torch.tensor([[10, 11, 12, 13, 14, 15, 16, 17], [18, 19, 20, 21, 22, 23, 24, 25]]).reshape(2, 8),
    labels=torch.tensor([[10, 11, 12, 13, 14, 15, 16, 17], [18, 19, 20, 21, 22, 23, 24, 25]]).reshape(2, 8),
)
inputs = {name: x.to(model.device) if hasattr(x, 'to') else x for name, x in inputs.items()}
model(**inputs)
