# cause: offload-hook-bypassed|meta-tensor-not-materialized
# guilty: layer.down.weight (weight, W)
# line: 60
# repair: in neuron_effect call the module instead of reading its weight, e.g. layer.down(torch.diag(...)), or read the weight inside align_module_device/with the hook's pre_forward OR do not offload the layers that are studied
"""Direct effect of single MLP neurons on the logits of a model kept on the host."""
import torch
import torch.nn as nn
import torch.nn.functional as F
from accelerate import cpu_offload


class Layer(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.up = nn.Linear(dim, 3 * dim)
        self.down = nn.Linear(3 * dim, dim, bias=False)

    def forward(self, x):
        return x + self.down(F.relu(self.up(self.norm(x))))


class Reader(nn.Module):
    def __init__(self, vocab=60, dim=24, depth=3):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.layers = nn.ModuleList(Layer(dim) for _ in range(depth))
        self.unembed = nn.Linear(dim, vocab, bias=False)

    def forward(self, ids):
        x = self.embed(ids)
        for layer in self.layers:
            x = layer(x)
        return self.unembed(x)


class NeuronRecorder:
    """Keeps the inputs of every down projection of one run."""

    def __init__(self, model):
        self.values = {}
        self.handles = [
            layer.down.register_forward_pre_hook(self._keep(i)) for i, layer in enumerate(model.layers)
        ]

    def _keep(self, index):
        def hook(module, args):
            self.values[index] = args[0].detach()

        return hook

    def close(self):
        for handle in self.handles:
            handle.remove()


def neuron_effect(model, recorder, index, direction):
    layer = model.layers[index]
    activity = recorder.values[index][:, -1]
    written = (direction[:, None] * layer.down.weight).sum(0)
    return activity * written


def main():
    torch.manual_seed(0)
    model = cpu_offload(Reader().eval(), execution_device=torch.device("cuda:0"))
    recorder = NeuronRecorder(model)
    ids = torch.randint(0, 60, (4, 12)).to("cuda:0")
    with torch.no_grad():
        logits = model(ids)
        direction = torch.randn(24, device=logits.device)
        for index in range(3):
            effect = neuron_effect(model, recorder, index, direction)
            best = effect.mean(0).topk(3)
            print(index, best.indices.tolist(), [round(v, 3) for v in best.values.tolist()])
    recorder.close()


if __name__ == "__main__":
    main()
