"""Recurrent networks on virtual tensors.

The devices of hidden states and weights are compared as cuDNN's route compares them.

C++ compares them itself (`check_attributes` in `aten/src/ATen/native/RNN.h`), before any kernel, with the
devices that it sees.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

import torch

from samedevice.events import EventKind
from samedevice.runtime.kernels.replacements import composite, replaced
from samedevice.runtime.state import META, caller, current_machine
from samedevice.runtime.tensors import move, seen_device
from samedevice.runtime.tracking import Recorder

Tensor = torch.Tensor
aten = torch.ops.aten
_AT = {"input": 1, "data": 2}
"""Position of the hidden states in each overload; the weights are next."""


def _network(op: Any, hidden_at: int, *args: Any, **kwargs: Any) -> Any:
    hidden, weights = args[hidden_at], args[hidden_at + 1]
    named = [("input", args[0], False), *_named("hx", hidden), *_named("params", weights)]
    devices = [seen_device(tensor) for _, tensor, _ in named]
    if META in devices or all(device == devices[0] for device in devices):
        return composite(op, *args, **kwargs)
    stranger = next(place for place, device in enumerate(devices) if device != devices[0])
    kind = "hidden" if named[stranger][0].startswith("hx") else "parameter"
    message = (
        f"Input and {kind} tensors are not at the same device, found input tensor at {devices[0]} and {kind} "
        f"tensor at {devices[stranger]}"
    )
    current_machine().part(Recorder).refused(EventKind.MISMATCH, str(op), message, named, devices, caller())
    home = next((device for device in devices if device.type == "cuda"), devices[0])
    moved = list(args)
    for place in (0, hidden_at, hidden_at + 1):
        moved[place] = (
            move(args[place], home)
            if isinstance(args[place], Tensor)
            else [move(each, home) for each in args[place]]
        )
    return composite(op, *moved, **kwargs)


def _named(name: str, tensors: Any) -> Iterator[tuple[str, torch.Tensor, bool]]:
    if isinstance(tensors, Tensor):
        yield name, tensors, False
    else:
        yield from ((f"{name}[{place}]", tensor, False) for place, tensor in enumerate(tensors))


def _functions() -> dict[Any, Callable[..., Any]]:
    found: dict[Any, Callable[..., Any]] = {}
    for name in ("lstm", "gru", "rnn_tanh", "rnn_relu"):
        for overload, hidden_at in _AT.items():
            op = getattr(getattr(aten, name), overload)
            found[op] = functools.update_wrapper(functools.partial(_network, op, hidden_at), _network)
    return found


PATCHES = replaced(
    _functions(), "C++ compares the devices before any kernel, and for C++ all virtual tensors share one"
)
