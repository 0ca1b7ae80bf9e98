import torch
from accelerate import dispatch_model, infer_auto_device_map
from transformers import MBartConfig, MBartModel

config = MBartConfig(vocab_size=40, d_model=16, encoder_layers=2, decoder_layers=2, encoder_ffn_dim=64,
                     decoder_ffn_dim=64, encoder_attention_heads=2, decoder_attention_heads=2,
                     max_position_embeddings=32, attn_implementation="eager")
model = MBartModel(config).eval()
size = sum(parameter.numel() * parameter.element_size() for parameter in model.parameters())
device_map = infer_auto_device_map(model, max_memory={0: int(0.42 * size), 1: 2 * size},
                                   no_split_module_classes=model._no_split_modules)
model = dispatch_model(model, device_map, main_device="cuda:0")
words = torch.randint(3, 40, (2, 6), device="cuda:0")
with torch.no_grad():
    states = model(input_ids=words, decoder_input_ids=words[:, :4], use_cache=False).last_hidden_state
print(states.shape)
print("SCENARIO OK")
