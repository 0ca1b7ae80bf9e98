# cause: offload-hook-bypassed
# guilty: model.lm_head.weight
import torch
from accelerate import cpu_offload
from transformers import MistralConfig, MistralForCausalLM

torch.manual_seed(26)
cfg = MistralConfig(vocab_size=64, hidden_size=16, intermediate_size=32, num_hidden_layers=2,
                    num_attention_heads=2, num_key_value_heads=1, max_position_embeddings=64,
                    sliding_window=16, bos_token_id=1, eos_token_id=2, pad_token_id=0)
model = MistralForCausalLM(cfg).eval()
cpu_offload(model, execution_device="cuda:0")

CHOICES = {"A": 10, "B": 11, "C": 12, "D": 13}


@torch.no_grad()
def answer(ids):
    """Only four words of the vocabulary matter, so only their rows are multiplied."""
    keep = torch.ones_like(ids)
    hidden = model.model(input_ids=ids, attention_mask=keep, use_cache=False).last_hidden_state
    last = hidden[:, -1]
    rows = torch.tensor(list(CHOICES.values()), device=last.device)
    score = last @ model.lm_head.weight.index_select(0, rows).T
    best = score.argmax(dim=-1)
    return [list(CHOICES)[i] for i in best.tolist()]


questions = torch.tensor([[1, 20, 21, 22, 23], [1, 30, 31, 32, 33]], device="cuda:0")
print(answer(questions))
