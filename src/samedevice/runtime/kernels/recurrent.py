"""Recurrent networks on virtual tensors.

The devices of hidden states and weights are compared as cuDNN's route compares them.

C++ compares them itself (`check_attributes` in `aten/src/ATen/native/RNN.h`), before any kernel, with the
devices that it sees. It takes a packed input on the host apart without that, and a cell on a GPU into two
products and a fused kernel (`RNN.cpp`, `LSTMCell` and `GRUCell`); for C++ no carrier is on a GPU.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

import torch

from samedevice.device_rules import row_for
from samedevice.events import EventKind
from samedevice.runtime.engine import refusal
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
    if hidden_at == _AT["data"] and devices[0].type == "cpu":
        if not _first_product_refused(args[0], weights, has_biases=args[hidden_at + 2]):
            return composite(op, *args, **kwargs)
    else:
        stranger = next(place for place, device in enumerate(devices) if device != devices[0])
        kind = "hidden" if named[stranger][0].startswith("hx") else "parameter"
        message = (
            f"Input and {kind} tensors are not at the same device, found input tensor at {devices[0]} and "
            f"{kind} tensor at {devices[stranger]}"
        )
        recorder = current_machine().part(Recorder)
        recorder.refused(EventKind.MISMATCH, str(op), message, named, devices, caller())
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


def _first_product_refused(input: torch.Tensor, weights: Any, *, has_biases: bool) -> bool:
    """Whether the first layer's product of a packed input is refused, which comes before all else."""
    if has_biases:
        return _refused(_ADDMM, {"self": weights[2], "mat1": input, "mat2": weights[0]})
    return _refused(_MM, {"self": input, "mat2": weights[0]})


_MM, _ADDMM = str(aten.mm.default), str(aten.addmm.default)


def _cell(op: Any, fused: str, *args: Any, **kwargs: Any) -> Any:
    """A cell whose input is on a GPU: the kernels that CUDA calls for it compare devices, each its own."""
    given = {**dict(zip(_IN_CELL, args, strict=False)), **kwargs}
    input, hidden = given["input"], given["hx"]
    states = [hidden] if isinstance(hidden, Tensor) else list(hidden)
    weights = [given.get(name) for name in _IN_CELL[2:]]
    devices = [seen_device(each) for each in (input, *states, *weights) if each is not None]
    home = devices[0]
    if home.type != "cuda" or META in devices or all(device == home for device in devices):
        return composite(op, *args, **kwargs)
    _refused(_MM, {"self": input, "mat2": given["w_ih"]})
    _refused(_MM, {"self": states[0], "mat2": given["w_hh"]})
    gates = {"input_gates": input, "hidden_gates": _where_it_is(states[0], given["w_hh"])}
    kept = {"hx" if len(states) == 1 else "cx": states[-1]}
    _refused(fused, {**gates, **kept, "input_bias": weights[2], "hidden_bias": weights[3]})
    return composite(
        op,
        move(input, home),
        move(hidden, home) if isinstance(hidden, Tensor) else [move(each, home) for each in hidden],
        *[None if each is None else move(each, home) for each in weights],
    )


_IN_CELL = ("input", "hx", "w_ih", "w_hh", "b_ih", "b_hh")


def _where_it_is(state: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """What is where a product of both is."""
    return state if seen_device(state).type == "cuda" else weight


def _refused(operator: str, given: dict[str, torch.Tensor | None]) -> bool:
    """Whether an operator that a network or a cell calls refuses these tensors, which is then recorded."""
    named = [(name, tensor, False) for name, tensor in given.items() if tensor is not None]
    devices = [seen_device(tensor) for _, tensor, _ in named]
    refused = refusal(row_for(operator), named, devices)
    if refused is not None:
        recorder = current_machine().part(Recorder)
        recorder.refused(EventKind.MISMATCH, operator, refused.message, named, devices, caller())
    return refused is not None


def _functions() -> dict[Any, Callable[..., Any]]:
    found: dict[Any, Callable[..., Any]] = {}
    for name in ("lstm_cell", "gru_cell"):
        op = getattr(aten, name).default
        fused = str(getattr(aten, f"_thnn_fused_{name}").default)
        found[op] = functools.update_wrapper(functools.partial(_cell, op, fused), _cell)
    for name in ("lstm", "gru", "rnn_tanh", "rnn_relu"):
        for overload, hidden_at in _AT.items():
            op = getattr(getattr(aten, name), overload)
            found[op] = functools.update_wrapper(functools.partial(_network, op, hidden_at), _network)
    return found


PATCHES = replaced(
    _functions(), "C++ compares the devices before any kernel, and for C++ all virtual tensors share one"
)
