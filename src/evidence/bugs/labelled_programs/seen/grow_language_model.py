# cause: optimizer-state-on-other-device
# guilty: ?
"""Grow a small language model and carry the Adam moments of the smaller one over."""
import torch
from torch import nn
from transformers import GPTNeoXConfig, GPTNeoXForCausalLM


def language_model(layers):
    return GPTNeoXForCausalLM(GPTNeoXConfig(
        vocab_size=60, hidden_size=32, intermediate_size=48, num_hidden_layers=layers,
        num_attention_heads=4, max_position_embeddings=32))


def train(model, optimizer, steps, seed):
    gen = torch.Generator().manual_seed(seed)
    for _ in range(steps):
        ids = torch.randint(0, 60, (4, 12), generator=gen).to(model.device)
        logits = model(input_ids=ids, use_cache=False).logits
        loss = nn.functional.cross_entropy(logits[:, :-1].transpose(1, 2), ids[:, 1:])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return loss.item()


def grow(small, layers, device):
    large = language_model(layers).to(device)
    result = large.load_state_dict(small.state_dict(), strict=False)
    assert not result.unexpected_keys
    return large


def inherit_moments(old_model, old_opt, new_model, new_opt):
    source = dict(old_model.named_parameters())
    for name, param in new_model.named_parameters():
        twin = source.get(name)
        if twin is None or twin not in old_opt.state:
            continue
        new_opt.state[param] = {k: v.clone() for k, v in old_opt.state[twin].items()}


def main():
    torch.manual_seed(0)
    small = language_model(2).to("cuda:1")
    small_opt = torch.optim.AdamW(small.parameters(), lr=1e-3)
    print("small", train(small, small_opt, 2, seed=0))

    large = grow(small, 3, torch.device("cuda:0"))
    large_opt = torch.optim.AdamW(large.parameters(), lr=5e-4)
    inherit_moments(small, small_opt, large, large_opt)
    print("large", train(large, large_opt, 2, seed=1))


if __name__ == "__main__":
    main()
