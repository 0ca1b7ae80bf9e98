# cause: input-not-on-embedding-device
# guilty: step
import torch
from transformers import DynamicCache, Qwen2Config, Qwen2ForCausalLM

cfg = Qwen2Config(
    vocab_size=80,
    hidden_size=32,
    intermediate_size=48,
    num_hidden_layers=2,
    num_attention_heads=4,
    num_key_value_heads=2,
    max_position_embeddings=128,
    bos_token_id=1,
    eos_token_id=2,
    pad_token_id=0,
)
dev = "cuda:1"
model = Qwen2ForCausalLM(cfg).to(dev).eval()

cache = DynamicCache()
prompt = torch.tensor([[5, 9, 33, 12, 7]], device=dev)
spoken = []

with torch.no_grad():
    out = model(input_ids=prompt, past_key_values=cache, use_cache=True)
    for _ in range(8):
        token = int(out.logits[0, -1].argmax())
        spoken.append(token)
        if token == cfg.eos_token_id:
            break
        step = torch.tensor([[token]])
        out = model(input_ids=step, past_key_values=cache, use_cache=True)

print(" ".join(map(str, spoken)))
