# cause: module-left-on-other-device|hard-coded-device|lm-head-or-tied-weight-split
# guilty: state (self.probes[name], the weights of self.probes[name])
# line: 51
# repair: in ProbeSet.__init__ put each probe on the card of its layer: probe.to(next(lm.get_submodule(name).parameters()).device) (and the targets to logits.device) OR in the loss write self.probes[name](state.to(self.device))
import tempfile

import torch
import torch.nn as nn
from transformers import GPT2Config, GPT2Model

# Linear probes for a syntactic property at every depth of a decoder.


def load_decoder(folder, n_layer=4):
    cfg = GPT2Config(vocab_size=200, n_positions=64, n_embd=32, n_layer=n_layer, n_head=4)
    GPT2Model(cfg).save_pretrained(folder)
    cut = n_layer // 2
    plan = {"wte": "cuda:0", "wpe": "cuda:0", "drop": "cuda:0", "ln_f": "cuda:1"}
    plan.update({f"h.{i}": "cuda:0" if i < cut else "cuda:1" for i in range(n_layer)})
    return GPT2Model.from_pretrained(folder, device_map=plan).eval()


class Tap:
    def __init__(self, lm, names):
        self.states = {}
        self.handles = [lm.get_submodule(n).register_forward_hook(self._save(n)) for n in names]

    def _save(self, name):
        def hook(module, args, output):
            hidden = output[0] if isinstance(output, tuple) else output
            self.states[name] = hidden.detach()
        return hook

    def close(self):
        for handle in self.handles:
            handle.remove()


class ProbeSet:
    def __init__(self, lm, names, n_class=3, lr=1e-2):
        self.device = lm.device
        width = lm.config.n_embd
        self.names = names
        self.probes = {n: nn.Linear(width, n_class).to(self.device) for n in names}
        self.opts = {n: torch.optim.Adam(p.parameters(), lr=lr) for n, p in self.probes.items()}

    def step(self, states, tags):
        losses = {}
        for name in self.names:
            state = states[name]
            logits = self.probes[name](state)
            loss = nn.functional.cross_entropy(logits.flatten(0, 1), tags.to(logits.device).flatten())
            self.opts[name].zero_grad()
            loss.backward()
            self.opts[name].step()
            losses[name] = loss.item()
        return losses


def sentences(n, device):
    for _ in range(n):
        ids = torch.randint(0, 200, (6, 15), device=device)
        yield ids, ids % 3


def main():
    torch.manual_seed(0)
    with tempfile.TemporaryDirectory() as folder:
        lm = load_decoder(folder)
    names = [f"h.{i}" for i in range(lm.config.n_layer)]
    tap = Tap(lm, names)
    probes = ProbeSet(lm, names)
    for ids, tags in sentences(3, lm.device):
        with torch.no_grad():
            lm(input_ids=ids)
        print({k: round(v, 3) for k, v in probes.step(tap.states, tags).items()})
    tap.close()


if __name__ == "__main__":
    main()
