import torch
from accelerate import dispatch_model
from transformers import OpenLlamaConfig, OpenLlamaForCausalLM

config = OpenLlamaConfig(vocab_size=64, hidden_size=32, intermediate_size=48, num_hidden_layers=2,
                         num_attention_heads=4, max_position_embeddings=32, use_stable_embedding=False,
                         shared_input_output_embedding=True)
model = OpenLlamaForCausalLM(config).eval()
device_map = {"model.embed_tokens": "cuda:0", "model.layers.0": "cuda:0",
              "model.layers.1": "cuda:1", "model.norm": "cuda:1"}
model = dispatch_model(model, device_map, main_device="cuda:0")
ids = torch.randint(3, 64, (2, 6), device="cuda:0")
with torch.no_grad():
    print(model(input_ids=ids, use_cache=False).logits.shape)
print("SCENARIO OK")
