import tempfile

import torch
from transformers import BlenderbotConfig, BlenderbotForConditionalGeneration

config = BlenderbotConfig(vocab_size=40, d_model=16, encoder_layers=2, decoder_layers=2, encoder_ffn_dim=32,
                          decoder_ffn_dim=32, encoder_attention_heads=2, decoder_attention_heads=2,
                          max_position_embeddings=32, bos_token_id=1, eos_token_id=2, pad_token_id=0,
                          decoder_start_token_id=1)
model = BlenderbotForConditionalGeneration(config)
first, second = "cuda:0", "cuda:1"
device_map = {"model.shared": first, "model.encoder": first, "model.decoder.embed_tokens": first,
              "model.decoder.embed_positions": first, "model.decoder.layers.0": first,
              "model.decoder.layers.1": second, "model.decoder.layer_norm": second, "lm_head": first,
              "final_logits_bias": second}
with tempfile.TemporaryDirectory() as folder:
    model.save_pretrained(folder)
    model = BlenderbotForConditionalGeneration.from_pretrained(folder, device_map=device_map).eval()
words = torch.randint(3, 40, (2, 6), device="cuda:0")
with torch.no_grad():
    logits = model(input_ids=words, decoder_input_ids=words[:, :4], use_cache=False).logits
print(logits.shape)
print("SCENARIO OK")
