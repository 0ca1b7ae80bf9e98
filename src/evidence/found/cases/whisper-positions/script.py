import tempfile

import torch
from transformers import WhisperConfig, WhisperForConditionalGeneration

config = WhisperConfig(
    d_model=64, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4, decoder_attention_heads=4,
    encoder_ffn_dim=128, decoder_ffn_dim=128, vocab_size=512, max_source_positions=300,
    pad_token_id=0, bos_token_id=1, eos_token_id=1, decoder_start_token_id=2, begin_suppress_tokens=[3],
)
folder = tempfile.mkdtemp()
WhisperForConditionalGeneration(config).save_pretrained(folder)
model = WhisperForConditionalGeneration.from_pretrained(folder, device_map='sequential', max_memory={0: 360000, 1: '1000GB'})
inputs = dict(input_features=torch.randn(2, 80, 600), decoder_input_ids=torch.full((2, 4), 5))
inputs = {name: x.to(model.device) for name, x in inputs.items()}
model(**inputs)
