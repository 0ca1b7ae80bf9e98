import torch
from accelerate import dispatch_model
from transformers import FuyuConfig, FuyuForCausalLM

config = FuyuConfig(vocab_size=64, hidden_size=32, intermediate_size=48, num_hidden_layers=2,
                    num_attention_heads=4, max_position_embeddings=64, patch_size=4, num_channels=3,
                    pad_token_id=0)
model = FuyuForCausalLM(config).eval()
text = "language_model.model."
device_map = {text + "embed_tokens": "cuda:0", text + "layers.0": "cuda:0", text + "layers.1": "cuda:1",
              text + "final_layernorm": "cuda:1", "language_model.lm_head": "cuda:1",
              "vision_embed_tokens": "cuda:1"}
model = dispatch_model(model, device_map, main_device="cuda:0")
ids = torch.randint(3, 64, (1, 8), device="cuda:0")
patches = [torch.randn(1, 4, 4 * 4 * 3, device="cuda:0")]
places = torch.tensor([[0, 1, 2, 3, -1, -1, -1, -1]], device="cuda:0")
with torch.no_grad():
    output = model(input_ids=ids, image_patches=patches, image_patches_indices=places, use_cache=False)
print(output.logits.shape)
print("SCENARIO OK")
