import torch
from accelerate import dispatch_model
from transformers import OPTConfig, OPTForQuestionAnswering

config = OPTConfig(vocab_size=64, hidden_size=32, ffn_dim=48, num_hidden_layers=2, num_attention_heads=4,
                   max_position_embeddings=64, word_embed_proj_dim=32)
model = OPTForQuestionAnswering(config)
decoder = "model.decoder."
device_map = {decoder + "embed_tokens": "cuda:0", decoder + "embed_positions": "cuda:0",
              decoder + "layers.0": "cuda:0", decoder + "layers.1": "cuda:1",
              decoder + "final_layer_norm": "cuda:1", "qa_outputs": "cuda:1"}
model = dispatch_model(model, device_map, main_device="cuda:0")
ids = torch.randint(3, 64, (2, 10), device="cuda:0")
output = model(input_ids=ids, attention_mask=torch.ones_like(ids),
               start_positions=torch.tensor([2, 3], device="cuda:0"),
               end_positions=torch.tensor([4, 5], device="cuda:0"))
output.loss.backward()
print(output.loss.item())
print("SCENARIO OK")
