# cause: meta-tensor-not-materialized|lm-head-or-tied-weight-split
# guilty: ? (head.weight)
# line: 81
# repair: in load_for_serving call model.tie() after load_state_dict, so that head.weight is the loaded embedding again OR keep head.weight in the saved file
"""Language model over discrete speech units: train on one card, serve on the other without double memory."""
import io

import torch
import torch.nn as nn
import torch.nn.functional as F
from accelerate import init_empty_weights


class DilatedBlock(nn.Module):
    def __init__(self, dim, dilation):
        super().__init__()
        self.pad = 2 * dilation
        self.norm = nn.LayerNorm(dim)
        self.conv = nn.Conv1d(dim, 2 * dim, 3, dilation=dilation)

    def forward(self, x):
        h = F.pad(self.norm(x).transpose(1, 2), (self.pad, 0))
        return x + F.glu(self.conv(h), dim=1).transpose(1, 2)


class UnitLM(nn.Module):
    def __init__(self, units=64, dim=32, blocks=3):
        super().__init__()
        self.embed = nn.Embedding(units, dim)
        self.blocks = nn.ModuleList(DilatedBlock(dim, 2 ** i) for i in range(blocks))
        self.norm = nn.LayerNorm(dim)
        self.head = nn.Linear(dim, units, bias=False)
        self.tie()

    def tie(self):
        self.head.weight = self.embed.weight

    def forward(self, units):
        x = self.embed(units)
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def unique_state(model):
    """Weights that share storage go into the file once."""
    seen, state = set(), {}
    for name, tensor in model.state_dict().items():
        if tensor.data_ptr() in seen:
            continue
        seen.add(tensor.data_ptr())
        state[name] = tensor.cpu()
    return state


def train(device, steps=5):
    model = UnitLM().to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    for _ in range(steps):
        units = torch.randint(0, 64, (4, 40), device=device)
        logits = model(units[:, :-1])
        loss = F.cross_entropy(logits.flatten(0, 1), units[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print("loss", round(loss.item(), 3))
    file = io.BytesIO()
    torch.save(unique_state(model), file)
    file.seek(0)
    return file


def load_for_serving(file, device):
    with init_empty_weights():
        model = UnitLM()
    state = torch.load(file, map_location="cpu")
    missing, unexpected = model.load_state_dict(state, strict=False, assign=True)
    if unexpected:
        raise KeyError(unexpected)
    print("loaded", len(state), "tensors;", len(missing), "shared with others")
    return model.eval().to(device)


@torch.inference_mode()
def continue_speech(model, prompt, steps=12, temperature=0.9):
    units = prompt
    for _ in range(steps):
        probs = (model(units)[:, -1] / temperature).softmax(-1)
        units = torch.cat([units, torch.multinomial(probs, 1)], dim=1)
    return units


def main():
    torch.manual_seed(0)
    file = train("cuda:0")
    model = load_for_serving(file, "cuda:1")
    prompt = torch.randint(0, 64, (2, 10), device="cuda:1")
    print(continue_speech(model, prompt).tolist())


if __name__ == "__main__":
    main()
