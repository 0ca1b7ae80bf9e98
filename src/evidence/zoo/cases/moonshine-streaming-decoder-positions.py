import torch
from accelerate import dispatch_model
from transformers import MoonshineStreamingConfig, MoonshineStreamingEncoderConfig, MoonshineStreamingModel

size = dict(hidden_size=32, intermediate_size=32, num_hidden_layers=1, num_attention_heads=2)
encoder = MoonshineStreamingEncoderConfig(num_key_value_heads=2, sliding_windows=((16, 4),), **size)
config = MoonshineStreamingConfig(encoder_config=encoder, vocab_size=64, max_position_embeddings=128,
                                  num_key_value_heads=2, **size)
model = MoonshineStreamingModel(config).eval()
device_map = {"encoder.embedder": "cuda:0", "encoder.layers.0": "cuda:0", "encoder.final_norm": "cuda:0",
              "decoder.embed_tokens": "cuda:1", "decoder.rotary_emb": "cuda:1", "decoder.pos_emb": "cuda:1",
              "decoder.layers.0": "cuda:1", "decoder.norm": "cuda:1"}
model = dispatch_model(model, device_map, main_device="cuda:0")
sound = torch.randn(1, 3200, device="cuda:0")
with torch.no_grad():
    states = model(input_values=sound, decoder_input_ids=torch.tensor([[1, 5, 9]], device="cuda:0"))
print(states.last_hidden_state.shape)
print("SCENARIO OK")
