import torch
from accelerate import dispatch_model
from transformers import InstructBlipConfig, InstructBlipForConditionalGeneration, OPTConfig

text = OPTConfig(vocab_size=60, hidden_size=16, num_hidden_layers=2, ffn_dim=32, num_attention_heads=2,
                 max_position_embeddings=64, word_embed_proj_dim=16)
config = InstructBlipConfig(
    vision_config=dict(hidden_size=16, intermediate_size=32, num_hidden_layers=1, num_attention_heads=2,
                       image_size=16, patch_size=8),
    qformer_config=dict(vocab_size=60, hidden_size=16, num_hidden_layers=1, num_attention_heads=2,
                        intermediate_size=32, max_position_embeddings=32, encoder_hidden_size=16),
    text_config=text.to_dict(), num_query_tokens=4, image_token_index=50)
model = InstructBlipForConditionalGeneration(config).eval()
words, images = "cuda:0", "cuda:1"
model.query_tokens.data = model.query_tokens.data.to(images)
device_map = {"query_tokens": images, "vision_model": images, "qformer": images,
              "language_projection": images, "language_model": words}
model = dispatch_model(model, device_map, main_device=words)
ids = torch.tensor([[50, 50, 50, 50, 1, 7, 8]], device=words)
question = torch.randint(3, 50, (1, 5), device=words)
with torch.no_grad():
    logits = model(pixel_values=torch.randn(1, 3, 16, 16, device=images), input_ids=ids,
                   attention_mask=torch.ones_like(ids), qformer_input_ids=question,
                   qformer_attention_mask=torch.ones_like(question)).logits
print(logits.shape)
print("SCENARIO OK")
