import torch
from accelerate import dispatch_model
from transformers import IdeficsConfig, IdeficsForVisionText2Text

config = IdeficsConfig(
    vocab_size=64, additional_vocab_size=2, hidden_size=32, intermediate_size=48, num_hidden_layers=2,
    num_attention_heads=2, cross_layer_interval=2, use_resampler=False, max_sequence_length=64,
    vision_config=dict(embed_dim=32, image_size=16, patch_size=8, intermediate_size=48, num_hidden_layers=1,
                       num_attention_heads=2),
    bos_token_id=1, eos_token_id=2, pad_token_id=0)
model = IdeficsForVisionText2Text(config)
device_map = {"model.embed_tokens": "cuda:0", "model.vision_model": "cuda:0", "model.layers.0": "cuda:0",
              "model.gated_cross_attn_layers": "cuda:0", "model.layers.1": "cuda:1", "model.norm": "cuda:1",
              "lm_head": "cuda:1"}
model = dispatch_model(model, device_map, main_device="cuda:0")
ids = torch.randint(3, 60, (2, 6), device="cuda:0")
mask = torch.ones_like(ids)
mask[1, 4:] = 0
loss = model(input_ids=ids, attention_mask=mask, labels=ids, use_cache=False,
             pixel_values=torch.randn(2, 1, 3, 16, 16, device="cuda:0"),
             image_attention_mask=torch.ones(2, 6, 1, dtype=torch.long, device="cuda:0")).loss
loss.backward()
print(loss)
print("SCENARIO OK")
