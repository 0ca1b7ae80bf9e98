import torch
from accelerate import dispatch_model
from transformers import BarkSemanticConfig, BarkSemanticModel

config = BarkSemanticConfig(input_vocab_size=64, output_vocab_size=64, hidden_size=32, num_layers=2,
                            num_heads=2, block_size=64)
model = BarkSemanticModel(config).eval()
device_map = {"input_embeds_layer": "cuda:0", "position_embeds_layer": "cuda:1", "layers.0": "cuda:1",
              "layers.1": "cuda:1", "layernorm_final": "cuda:1", "lm_head": "cuda:1"}
model = dispatch_model(model, device_map, main_device="cuda:0")
with torch.no_grad():
    print(model(input_ids=torch.randint(64, (1, 7), device="cuda:0")).logits.shape)
print("SCENARIO OK")
