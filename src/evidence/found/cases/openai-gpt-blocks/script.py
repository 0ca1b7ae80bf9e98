import tempfile

import torch
from transformers import OpenAIGPTConfig, OpenAIGPTLMHeadModel

config = OpenAIGPTConfig(vocab_size=512, n_embd=96, n_layer=2, pad_token_id=0)
folder = tempfile.mkdtemp()
OpenAIGPTLMHeadModel(config).save_pretrained(folder)
model = OpenAIGPTLMHeadModel.from_pretrained(folder, device_map='auto', max_memory={0: 741384, 1: '1000GB'})
inputs = dict(
    input_ids=torch.tensor([[10, 11, 12, 13, 14, 15, 16, 17], [18, 19, 20, 21, 22, 23, 24, 25]]).reshape(2, 8),
    attention_mask=torch.full((2, 8,), 1),
)
inputs = {name: x.to(model.device) if hasattr(x, 'to') else x for name, x in inputs.items()}
model(**inputs)
