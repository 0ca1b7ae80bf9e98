import torch
from accelerate import dispatch_model
from transformers import Blip2Config, Blip2ForConditionalGeneration, OPTConfig

text = OPTConfig(vocab_size=60, hidden_size=16, num_hidden_layers=2, ffn_dim=32, num_attention_heads=2,
                 max_position_embeddings=64, word_embed_proj_dim=16, bos_token_id=1, eos_token_id=2,
                 pad_token_id=0)
config = Blip2Config(
    vision_config=dict(hidden_size=16, intermediate_size=32, num_hidden_layers=1, num_attention_heads=2,
                       image_size=16, patch_size=8),
    qformer_config=dict(vocab_size=60, hidden_size=16, num_hidden_layers=1, num_attention_heads=2,
                        intermediate_size=32, max_position_embeddings=32, encoder_hidden_size=16),
    text_config=text.to_dict(), num_query_tokens=4, image_token_index=50)
model = Blip2ForConditionalGeneration(config).eval()
model.query_tokens.data = model.query_tokens.data.to("cuda:0")
device_map = {"query_tokens": "cuda:0", "vision_model": "cuda:0", "qformer": "cuda:0",
              "language_projection": "cuda:0", "language_model": "cuda:1"}
model = dispatch_model(model, device_map, main_device="cuda:0")
words = torch.tensor([[50, 50, 50, 50, 1, 7, 8]], device="cuda:0")
tokens = model.generate(pixel_values=torch.randn(1, 3, 16, 16, device="cuda:0"), input_ids=words,
                        attention_mask=torch.ones_like(words), max_new_tokens=3, do_sample=False)
print(tokens.shape)
print("SCENARIO OK")
