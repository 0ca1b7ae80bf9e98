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


PROGRAMS = {
    each.__name__: each
    for each in (
        in_a_helper,
        inputs_left,
        labels_in_a_dictionary,
        kept_in_a_list,
        loaded,
        window_left,
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
    json.dump({"real": real, "plain": plain, "virtual": virtual, "thread": in_a_thread()}, sys.stdout)
