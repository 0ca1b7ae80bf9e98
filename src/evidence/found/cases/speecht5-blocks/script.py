import tempfile

import torch
from transformers import SpeechT5Config, SpeechT5ForSpeechToText

config = SpeechT5Config(
    hidden_size=96, encoder_layers=2, encoder_ffn_dim=384, decoder_layers=2, decoder_ffn_dim=384,
    speaker_embedding_dim=64, speech_decoder_postnet_layers=2,
)
folder = tempfile.mkdtemp()
SpeechT5ForSpeechToText(config).save_pretrained(folder)
model = SpeechT5ForSpeechToText.from_pretrained(folder, device_map='sequential', max_memory={0: 19242538, 1: '1000GB'})
inputs = dict(
    attention_mask=torch.full((2, 8,), 1),
    decoder_input_ids=torch.tensor([[10, 11, 12, 13, 14, 15, 16, 17], [18, 19, 20, 21, 22, 23, 24, 25]]).reshape(2, 8),
    input_values=torch.randn(2, 4000),
)
inputs = {name: x.to(model.device) if hasattr(x, 'to') else x for name, x in inputs.items()}
model(**inputs)
