"""Recurrent networks on virtual tensors.

The devices of hidden states and weights are compared as cuDNN's route compares them.

C++ compares them itself (`check_attributes` in `aten/src/ATen/native/RNN.h`), before any kernel, with the
devices that it sees.

Note [Routes of recurrent layers]
Input on a GPU goes to cuDNN (`cudnn_is_acceptable`), and other input takes the layers apart, once devices
were compared; a packed input on the host is taken apart without that. With weights or states on meta cuDNN's
operator is its shape function, which compares nothing. A cell with input on a GPU makes two products, then
calls a fused operator (`aten/src/ATen/native/RNN.cpp`, `LSTMCell` and `GRUCell`).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

from samedevice.device_rules import row_for
from samedevice.events import EventKind
from samedevice.runtime.engine import Engine, refusal
from samedevice.runtime.kernels.replacements import composite, replaced
from samedevice.runtime.state import META, caller, current_machine
from samedevice.runtime.tensors import brought, move, seen_device
from samedevice.runtime.tracking import Recorder

Tensor = torch.Tensor
aten = torch.ops.aten
_AT = {"input": 1, "data": 2}
"""Position of the hidden states in each overload; the weights are next."""
_MODES = {"rnn_relu": 0, "rnn_tanh": 1, "lstm": 2, "gru": 3}
"""As cuDNN numbers them."""
_OF_CUDNN = frozenset((torch.float16, torch.float32, torch.float64))
_FUSED = {
    aten.lstm_cell.default: aten._thnn_fused_lstm_cell.default,
    aten.gru_cell.default: aten._thnn_fused_gru_cell.default,
}
_CELL = ("input", "hx", "w_ih", "w_hh", "b_ih", "b_hh")


def _network(op: Any, mode: int, hidden_at: int, *args: Any, **kwargs: Any) -> Any:
    hidden, weights = args[hidden_at], args[hidden_at + 1]
    named = [("input", args[0], False), *_named("hx", hidden), *_named("params", weights)]
    devices = [seen_device(tensor) for _, tensor, _ in named]
    if all(device == devices[0] for device in devices):
        return composite(op, *args, **kwargs)
    on_meta: tuple[bool, ...] = ()
    if META in devices and _goes_to_cudnn(args[0], devices[0]):
        on_meta = current_machine().part(Engine).mismatches.reached(*_of_cudnn(mode, hidden_at, args)).on_meta
    elif META not in devices and hidden_at == _AT["data"] and devices[0].type == "cpu":
        if not _first_product_refused(args[0], weights, has_biases=args[hidden_at + 2]):
            return composite(op, *args, **kwargs)
    else:
        _refuse(op, named, devices)
    home = next((device for device in devices if device.type == "cuda"), devices[0])
    moved = list(args)
    for place in (0, hidden_at, hidden_at + 1):
        moved[place] = _brought(args[place], home)
    results = composite(op, *moved, **kwargs)
    if not any(on_meta):
        return results
    return tuple([move(each, META) if there else each for each, there in zip(results, on_meta, strict=False)])


def _refuse(
    op: Any, named: Sequence[tuple[str, torch.Tensor, bool]], devices: Sequence[torch.device]
) -> None:
    """What `check_attributes` says."""
    stranger = next(place for place, device in enumerate(devices) if device != devices[0])
    kind = "hidden" if named[stranger][0].startswith("hx") else "parameter"
    message = (
        f"Input and {kind} tensors are not at the same device, found input tensor at {devices[0]} and {kind} "
        f"tensor at {devices[stranger]}"
    )
    event = EventKind.UNMATERIALIZED if META in devices else EventKind.MISMATCH
    current_machine().part(Recorder).refused(event, str(op), message, named, devices, caller())


def _goes_to_cudnn(input: torch.Tensor, device: torch.device) -> bool:
    """`cudnn_is_acceptable`; see Note [Routes of recurrent layers]."""
    return (
        device.type == "cuda"
        and input.dtype in _OF_CUDNN
        and input.numel() > 0
        and torch._C._get_cudnn_enabled()
    )


def _of_cudnn(mode: int, hidden_at: int, args: Sequence[Any]) -> tuple[Any, ...]:
    """cuDNN's operator, and with what it is called for a call of a layer."""
    hidden, weights, has_biases, layers, dropout, train, both_ways = args[hidden_at : hidden_at + 7]
    hx, cx = (hidden, None) if isinstance(hidden, Tensor) else hidden
    width, projected = hx.size(2), 0
    if cx is not None and cx.size(2) != width:
        width, projected = cx.size(2), width
    packed = hidden_at == _AT["data"]
    sizes = args[1].tolist() if packed else []
    batch_first = not packed and args[hidden_at + 7]
    stride = 4 if has_biases else 2
    options = (mode, width, projected, layers, batch_first, dropout, train, both_ways, sizes, None)
    return aten._cudnn_rnn.default, args[0], weights, stride, None, hx, cx, *options


def _first_product_refused(input: torch.Tensor, weights: Any, *, has_biases: bool) -> bool:
    """Whether the first layer's product of a packed input is refused, which comes before all else."""
    if has_biases:
        return _refused(_ADDMM, {"self": weights[2], "mat1": input, "mat2": weights[0]})
    return _refused(_MM, {"self": input, "mat2": weights[0]})


_MM, _ADDMM = str(aten.mm.default), str(aten.addmm.default)


def _cell(op: Any, *args: Any, **kwargs: Any) -> Any:
    """A cell whose input is on a GPU: the kernels that CUDA calls for it compare devices, each its own."""
    given = {**dict(zip(_CELL, args, strict=False)), **kwargs}
    hidden = given["hx"]
    states = [hidden] if isinstance(hidden, Tensor) else list(hidden)
    weights = [given.get(name) for name in _CELL[2:]]
    devices = [seen_device(each) for each in (given["input"], *states, *weights) if each is not None]
    home = devices[0]
    if home.type != "cuda" or all(device == home for device in devices):
        return composite(op, *args, **kwargs)
    compare = _compare_beside_meta if META in devices else _compare
    compare(_FUSED[op], given["input"], states, weights)
    return composite(op, **{name: _brought(value, home) for name, value in given.items()})


def _compare(fused: Any, input: Tensor, states: Sequence[Tensor], weights: Sequence[Any]) -> None:
    w_ih, w_hh, b_ih, b_hh = weights
    _refused(_MM, {"self": input, "mat2": w_ih})
    _refused(_MM, {"self": states[0], "mat2": w_hh})
    gates = {"input_gates": input, "hidden_gates": _where_it_is(states[0], w_hh)}
    kept = {"hx" if len(states) == 1 else "cx": states[-1]}
    _refused(str(fused), {**gates, **kept, "input_bias": b_ih, "hidden_bias": b_hh})


def _compare_beside_meta(fused: Any, input: Tensor, states: Sequence[Tensor], weights: Sequence[Any]) -> None:
    """With a tensor on meta torch is asked for what the fused operator says."""
    w_ih, w_hh, *biases = weights
    gates = torch.matmul(input, w_ih.t()), torch.matmul(states[0], w_hh.t())
    current_machine().part(Engine).mismatches.reached(fused, *gates, states[-1], *biases)


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


def _brought(value: Any, home: torch.device) -> Any:
    """Tensors where the others are."""
    if isinstance(value, (list, tuple)):
        return [_brought(each, home) for each in value]
    away = isinstance(value, Tensor) and seen_device(value) != home
    return brought(value, home) if away else value


def _named(name: str, tensors: Any) -> Iterator[tuple[str, torch.Tensor, bool]]:
    if isinstance(tensors, Tensor):
        yield name, tensors, False
    else:
        yield from ((f"{name}[{place}]", tensor, False) for place, tensor in enumerate(tensors))


def _functions() -> dict[Any, Callable[..., Any]]:
    found: dict[Any, Callable[..., Any]] = {}
    for name, mode in _MODES.items():
        for overload, hidden_at in _AT.items():
            op = getattr(getattr(aten, name), overload)
            found[op] = functools.update_wrapper(functools.partial(_network, op, mode, hidden_at), _network)
    return found


PATCHES = (
    *replaced(
        _functions(), "C++ compares the devices before any kernel, and for C++ all virtual tensors share one"
    ),
    *replaced(
        {op: functools.update_wrapper(functools.partial(_cell, op), _cell) for op in _FUSED},
        "CUDA's route ends in a fused operator, and C++ takes that of the host for virtual tensors",
    ),
)
