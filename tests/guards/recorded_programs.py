"""Programs that fail on devices that are real for torch, and on virtual ones; for `test_guard_record`.

A process of its own, since the twins take torch's free backend for good.
"""

import json
import sys
import tempfile
import threading
from pathlib import Path

import torch
from torch import nn

import samedevice as sd
from evidence.environments import twin_device

TWIN, GPU = "twin:0", "cuda:0"


class Scaled(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x):
        return scaled(self.layer(x))


def weights_for(size):
    return torch.arange(size)


def scaled(x):
    weights = weights_for(4)
    return x * weights


def in_a_helper(device):
    model = Scaled().to(device)
    model(torch.ones(2, 4).to(device))


def inputs_left(device):
    model = nn.Embedding(8, 4).to(device)
    model(torch.tensor([1, 2]))


def labels_in_a_dictionary(device):
    model = nn.Linear(4, 3).to(device)
    batch = {"x": torch.randn(2, 4).to(device), "labels": torch.zeros(2, 3)}
    nn.functional.mse_loss(model(batch["x"]), batch["labels"]).backward()


class Memory:
    def __init__(self):
        self.past = []

    def add(self, state):
        self.past.append(state.cpu())

    def mean(self):
        return sum(self.past) / len(self.past)


def kept_in_a_list(device):
    memory = Memory()
    for _ in range(2):
        memory.add(torch.ones(4, device=device))
    return torch.ones(4, device=device) - memory.mean()


def loaded(device):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "w.pt"
        torch.save({"w": torch.ones(4)}, path)
        state = torch.load(path)
    return torch.ones(4).to(device) + state["w"]


def window_left(device):
    """Checked before any operator runs."""
    wave, window = torch.ones(1, 64).to(device), weights_for(16).float()
    torch.stft(wave, 16, window=window, return_complex=True)


@torch.inference_mode()
def taken_back_in_inference_mode(device):
    """Composite operators come whole there."""
    model = nn.Linear(4, 4).to(device)
    state = {name: each.cpu() for name, each in model.state_dict().items()}
    return model.weight - state["weight"]


@torch.inference_mode()
def computed_in_inference_mode(device):
    x = torch.ones(4).to(device)
    halved = x.cpu() * 2
    return x + halved


PROGRAMS = {
    each.__name__: each
    for each in (
        in_a_helper,
        inputs_left,
        labels_in_a_dictionary,
        kept_in_a_list,
        loaded,
        window_left,
        taken_back_in_inference_mode,
        computed_in_inference_mode,
    )
}


def finding_of(run, device, record):
    try:
        with sd.guard(record=record):
            run(device)
    except RuntimeError as error:
        return told(error.finding)
    return None


def told(finding):
    """What must be equal on real devices and on virtual ones."""
    return {
        "code": finding.code,
        "cause": finding.cause,
        "guilty": finding.guilty,
        "at": finding.at.line,
        "operands": [
            {
                "name": each.name,
                "parameter": each.parameter,
                "made": each.made and each.made.function,
                "moved": each.moved and each.moved.function,
                "lineage": [
                    (step.kind, step.at and step.at.line, step.source, step.inherited)
                    for step in each.lineage
                ],
            }
            for each in finding.operands
        ],
    }


def memory_of_before():
    """What the guard has not seen being made, and what its detached self and results say."""
    before, filled = torch.ones(4), torch.empty(4)

    def run(device):
        on_device = torch.ones(4).to(device)
        with torch.no_grad():
            torch.add(torch.ones(4), 1, out=filled)
        return on_device + {"detached": before.detach(), "computed": before * 2, "filled": filled}[case]

    found = {}
    for case in ("detached", "computed", "filled"):
        finding = finding_of(run, TWIN, True)
        found[case] = finding["cause"], finding["operands"][1]["lineage"]
    return found


def in_script():
    """TorchScript loses what a dispatch mode's operator raised."""

    @torch.jit.script
    def product(a, b):
        return torch.mm(a, b)

    notes = []
    for b in (torch.ones(2, 3), torch.ones(3, 2).to(TWIN)):
        try:
            with sd.guard(record=True):
                product(torch.ones(2, 3), b)
        except RuntimeError as error:
            notes.append(error.__notes__[-1])
    return notes


def in_a_thread():
    caught = []

    def fails():
        try:
            in_a_helper(TWIN)
        except RuntimeError as error:
            caught.append(error.samedevice_event)

    with sd.guard(record=True):
        thread = threading.Thread(target=fails)
        thread.start()
        thread.join()
    return [each.made and each.made.function for each in caught[0].operands]


if __name__ == "__main__":
    twin_device.enter()
    real = {name: finding_of(run, TWIN, True) for name, run in PROGRAMS.items()}
    plain = {name: finding_of(run, TWIN, False) for name, run in PROGRAMS.items()}
    virtual = {}
    for name, run in PROGRAMS.items():
        with sd.machine("1x24GB", on_mismatch="raise"):
            virtual[name] = finding_of(run, GPU, False)
    told_of = {"thread": in_a_thread(), "before": memory_of_before(), "script": in_script()}
    json.dump({"real": real, "plain": plain, "virtual": virtual, **told_of}, sys.stdout)
