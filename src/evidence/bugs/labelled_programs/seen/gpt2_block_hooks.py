# cause: lm-head-or-tied-weight-split
# guilty: ?
"""Spread the blocks of GPT-2 over two cards with forward hooks, no framework."""
import torch
from torch.utils._pytree import tree_map_only
from transformers import GPT2Config, GPT2LMHeadModel


def mover(device):
    def hook(_module, args, kwargs):
        send = lambda t: t.to(device)
        return tree_map_only(torch.Tensor, send, args), tree_map_only(torch.Tensor, send, kwargs)
    return hook


def parallelize(model, devices):
    """Contiguous chunks of blocks per card; everything else goes with the first card."""
    model.to(devices[0])
    blocks = model.transformer.h
    chunk = -(-len(blocks) // len(devices))
    handles = []
    for i, block in enumerate(blocks):
        device = devices[i // chunk]
        block.to(device)
        handles.append(block.register_forward_pre_hook(mover(device), with_kwargs=True))
    return handles


def poems(n, vocab):
    gen = torch.Generator().manual_seed(0)
    return (torch.randint(0, vocab, (2, 12), generator=gen) for _ in range(n))


def main():
    torch.manual_seed(0)
    cfg = GPT2Config(vocab_size=64, n_positions=32, n_embd=32, n_layer=4, n_head=4,
                     tie_word_embeddings=False)
    model = GPT2LMHeadModel(cfg)
    devices = [torch.device("cuda", i) for i in range(2)]
    parallelize(model, devices)
    opt = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for ids in poems(3, cfg.vocab_size):
        ids = ids.to(devices[0])
        logits = model(input_ids=ids, use_cache=False).logits
        gold = ids[:, 1:].to(logits.device)
        loss = torch.nn.functional.cross_entropy(logits[:, :-1].transpose(1, 2), gold)
        opt.zero_grad()
        loss.backward()
        opt.step()
    print("loss", loss.item())


if __name__ == "__main__":
    main()
