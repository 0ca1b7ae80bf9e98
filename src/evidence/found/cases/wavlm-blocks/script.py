import tempfile

import torch
from transformers import WavLMConfig, WavLMForCTC

config = WavLMConfig(
    hidden_size=96, num_hidden_layers=2, intermediate_size=384, codevector_dim=32,
    proj_codevector_dim=32, classifier_proj_size=32, num_adapter_layers=2, output_hidden_size=96,
)
folder = tempfile.mkdtemp()
WavLMForCTC(config).save_pretrained(folder)
model = WavLMForCTC.from_pretrained(folder, device_map='sequential', max_memory={0: 17973864, 1: '1000GB'})
inputs = dict(attention_mask=torch.full((2, 8,), 1), input_values=torch.randn(2, 4000))
inputs = {name: x.to(model.device) if hasattr(x, 'to') else x for name, x in inputs.items()}
model(**inputs)
