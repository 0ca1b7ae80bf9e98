import tempfile

import torch
from diffusers import ChromaTransformer2DModel

model = ChromaTransformer2DModel(
    in_channels=16, num_layers=1, num_single_layers=1, attention_head_dim=16, num_attention_heads=4,
    joint_attention_dim=32, axes_dims_rope=(4, 4, 8), approximator_num_channels=16, approximator_hidden_dim=64,
)
folder = tempfile.mkdtemp()
model.save_pretrained(folder)
model = ChromaTransformer2DModel.from_pretrained(folder, device_map="auto", max_memory={0: 520000, 1: "1000GB"})
inputs = dict(
    hidden_states=torch.randn(1, 16, 16), encoder_hidden_states=torch.randn(1, 8, 32), timestep=torch.tensor([1.0]),
    img_ids=torch.zeros(16, 3), txt_ids=torch.zeros(8, 3),
)
inputs = {name: x.to(model.device) for name, x in inputs.items()}
model(**inputs)
