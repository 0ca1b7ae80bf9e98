# cause: module-left-on-other-device|hard-coded-device
# guilty: self.dec.bias (acts, sae)
# line: 19
# repair: in splice() place the dictionary with its layer: sae.to(next(block.parameters()).device) OR have the hook send the activation to the dictionary's card and its output back
"""Replace the residual stream of a dispatched GPT-2 by its sparse reconstruction."""
import torch
from torch import nn
from accelerate import dispatch_model
from transformers import GPT2Config, GPT2LMHeadModel


class SparseDictionary(nn.Module):
    def __init__(self, dim, width):
        super().__init__()
        self.enc = nn.Linear(dim, width)
        self.dec = nn.Linear(width, dim)

    def forward(self, acts):
        centred = acts - self.dec.bias
        code = torch.relu(self.enc(centred))
        return self.dec(code), code


def tiny_gpt2():
    cfg = GPT2Config(vocab_size=80, n_positions=32, n_embd=24, n_layer=4, n_head=3,
                     bos_token_id=0, eos_token_id=0)
    model = GPT2LMHeadModel(cfg).eval()
    plan = {"transformer.wte": "cuda:0", "transformer.wpe": "cuda:0", "transformer.drop": "cuda:0",
            "transformer.ln_f": "cuda:1", "lm_head": "cuda:0"}
    plan.update({f"transformer.h.{i}": "cuda:0" if i < 2 else "cuda:1" for i in range(4)})
    return dispatch_model(model, device_map=plan)


def splice(model, layer, sae, log):
    block = model.transformer.h[layer]
    sae.to(model.device).eval()

    def hook(module, args, output):
        hidden = output[0] if isinstance(output, tuple) else output
        rebuilt, code = sae(hidden)
        log.append((code > 0).float().mean().item())
        return (rebuilt,) + output[1:] if isinstance(output, tuple) else rebuilt

    return block.register_forward_hook(hook)


@torch.no_grad()
def nll(model, ids):
    return model(input_ids=ids, labels=ids, use_cache=False).loss.item()


if __name__ == "__main__":
    torch.manual_seed(0)
    lm = tiny_gpt2()
    ids = torch.randint(1, 80, (2, 16), device="cuda:0")
    clean = nll(lm, ids)
    for layer in range(4):
        density = []
        handle = splice(lm, layer, SparseDictionary(24, 96), density)
        print(layer, nll(lm, ids) - clean, density[-1])
        handle.remove()
