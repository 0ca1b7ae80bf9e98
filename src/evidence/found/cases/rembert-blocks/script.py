import tempfile

import torch
from transformers import RemBertConfig, RemBertForCausalLM

config = RemBertConfig(
    vocab_size=512, hidden_size=144, num_hidden_layers=2, input_embedding_size=32,
    output_embedding_size=208, intermediate_size=576, bos_token_id=510, eos_token_id=511,
)
folder = tempfile.mkdtemp()
RemBertForCausalLM(config).save_pretrained(folder)
model = RemBertForCausalLM.from_pretrained(folder, device_map='auto', max_memory={0: 677664, 1: '1000GB'})
inputs = dict(
    input_ids=torch.tensor([[10, 11, 12, 13, 14, 15, 16, 511], [18, 19, 20, 21, 22, 23, 24, 511]]).reshape(2, 8),
    attention_mask=torch.full((2, 8,), 1),
)
inputs = {name: x.to(model.device) if hasattr(x, 'to') else x for name, x in inputs.items()}
model(**inputs)
