# cause: tensor-created-on-wrong-device
# guilty: torch.ones((mask.size(0), 1), dtype=mask.dtype)
import torch
from transformers import GPTNeoXConfig, GPTNeoXForCausalLM

CFG = GPTNeoXConfig(vocab_size=160, hidden_size=32, intermediate_size=64, num_hidden_layers=2,
                    num_attention_heads=4, max_position_embeddings=96)


def left_pad(rows, pad=0):
    width = max(map(len, rows))
    ids = [[pad] * (width - len(r)) + r for r in rows]
    keep = [[0] * (width - len(r)) + [1] * len(r) for r in rows]
    return torch.tensor(ids), torch.tensor(keep)


@torch.no_grad()
def greedy(model, ids, mask, n_new):
    past = None
    feed = ids
    for _ in range(n_new):
        out = model(input_ids=feed, attention_mask=mask, past_key_values=past, use_cache=True)
        past = out.past_key_values
        feed = out.logits[:, -1].argmax(-1, keepdim=True)
        ids = torch.cat([ids, feed], dim=1)
        mask = torch.cat([mask, torch.ones((mask.size(0), 1), dtype=mask.dtype)], dim=1)
    return ids


def main():
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model = GPTNeoXForCausalLM(CFG).to(device).eval()
    ids, mask = left_pad([[11, 42, 7, 99], [3, 5]])
    ids, mask = ids.to(device), mask.to(device)
    for row in greedy(model, ids, mask, 5).tolist():
        print(row)


main()
