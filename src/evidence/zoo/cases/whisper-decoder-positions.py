import torch
from accelerate import dispatch_model
from transformers import WhisperConfig, WhisperForConditionalGeneration

config = WhisperConfig(vocab_size=64, d_model=32, encoder_layers=1, decoder_layers=1,
                       encoder_attention_heads=2, decoder_attention_heads=2, encoder_ffn_dim=48,
                       decoder_ffn_dim=48, num_mel_bins=8, max_source_positions=16,
                       max_target_positions=16, pad_token_id=0, bos_token_id=1, eos_token_id=2,
                       decoder_start_token_id=3)
model = WhisperForConditionalGeneration(config).eval()
device_map = {"model.encoder.conv1": "cuda:0", "model.encoder.conv2": "cuda:0",
              "model.encoder.embed_positions": "cuda:0", "model.encoder.layers": "cuda:0",
              "model.encoder.layer_norm": "cuda:0", "model.decoder.embed_tokens": "cuda:0",
              "model.decoder.embed_positions": "cuda:1", "model.decoder.layers.0": "cuda:1",
              "model.decoder.layer_norm": "cuda:1", "proj_out": "cuda:0"}
model = dispatch_model(model, device_map, main_device="cuda:0")
features = torch.randn(1, 8, 32, device="cuda:0")
ids = torch.tensor([[3, 5, 7]], device="cuda:0")
with torch.no_grad():
    print(model(input_features=features, decoder_input_ids=ids, use_cache=False).logits.shape)
print("SCENARIO OK")
