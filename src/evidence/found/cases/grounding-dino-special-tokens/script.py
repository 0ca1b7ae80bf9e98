import tempfile

import torch
from transformers import GroundingDinoConfig, GroundingDinoForObjectDetection

config = GroundingDinoConfig(
    backbone_config={'model_type': 'swin', 'embed_dim': 24, 'depths': [2, 2, 2], 'num_heads': [3, 6, 12], 'num_layers': 3, 'hidden_size': 192, 'stage_names': ['stem', 'stage1', 'stage2', 'stage3'], 'out_features': ['stage1', 'stage2', 'stage3'], 'out_indices': [1, 2, 3]},
    text_config={'model_type': 'bert', 'vocab_size': 512, 'hidden_size': 192, 'num_hidden_layers': 2, 'intermediate_size': 768},
    num_queries=20, encoder_layers=2, encoder_ffn_dim=512, decoder_layers=2, decoder_ffn_dim=512,
    d_model=64,
)
folder = tempfile.mkdtemp()
GroundingDinoForObjectDetection(config).save_pretrained(folder)
model = GroundingDinoForObjectDetection.from_pretrained(folder, device_map='sequential', max_memory={0: 9300000, 1: '1000GB'})
inputs = dict(
    input_ids=torch.tensor([[10, 11, 12, 13, 14, 15, 16, 17], [18, 19, 20, 21, 22, 23, 24, 25]]).reshape(2, 8),
    attention_mask=torch.full((2, 8,), 1), pixel_values=torch.randn(2, 3, 224, 224),
)
inputs = {name: x.to(model.device) if hasattr(x, 'to') else x for name, x in inputs.items()}
model(**inputs)
