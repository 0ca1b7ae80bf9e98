import torch
from accelerate import dispatch_model
from transformers import Molmo2Config, Molmo2Model

heads = dict(num_attention_heads=2, num_key_value_heads=2, head_dim=8)
config = Molmo2Config(
    vision_config=dict(hidden_size=16, intermediate_size=32, num_hidden_layers=2, image_size=[28, 28],
                       patch_size=14, num_position_embeddings=4, **heads),
    adapter_config=dict(hidden_size=16, intermediate_size=32, text_hidden_size=16,
                        vision_feature_layer=[-1], **heads),
    text_config=dict(hidden_size=16, intermediate_size=32, num_hidden_layers=2, vocab_size=60,
                     additional_vocab_size=4, max_position_embeddings=64, **heads),
    image_patch_id=50)
model = Molmo2Model(config).eval()
text, image = "cuda:0", "cuda:1"
device_map = {"language_model": text, "vision_tower": image, "multi_modal_projector": image}
model = dispatch_model(model, device_map, main_device=text)
with torch.no_grad():
    states = model(input_ids=torch.tensor([[3, 50, 50, 9, 4]], device=text),
                   attention_mask=torch.ones(1, 5, dtype=torch.long, device=text),
                   pixel_values=torch.randn(1, 4, 588, device=text),
                   image_token_pooling=torch.tensor([[0, 1], [2, 3]], device=text),
                   image_grids=torch.tensor([[1, 1, 1, 1]], device=text)).last_hidden_state
print(states.shape)
print("SCENARIO OK")
