# cause: generation-helper-on-wrong-device|hard-coded-device|cache-or-beam-state-on-wrong-device|tensor-created-on-wrong-device
# guilty: penalty (used)
# after: facebookresearch/fairseq#2989
import torch
from transformers import GPT2Config, GPT2LMHeadModel

config = GPT2Config(vocab_size=30, n_positions=24, n_embd=8, n_layer=1, n_head=2, bos_token_id=0, eos_token_id=1)
model = GPT2LMHeadModel(config).to("cuda:1").eval()


@torch.no_grad()
def diverse(model, ids, steps, strength=1.5):
    used = torch.zeros(ids.shape[0], model.config.vocab_size).cuda()
    for _ in range(steps):
        logits = model(ids).logits[:, -1]
        penalty = strength * used
        word = (logits - penalty).argmax(-1, keepdim=True)
        used.scatter_(1, word, 1.0)
        ids = torch.cat([ids, word], 1)
    return ids


print(diverse(model, torch.zeros(2, 3, dtype=torch.long, device="cuda:1"), 3))
