"""Which tensors of a refused call are to be moved, and where.

Must guarantee: a tensor that the call writes to is never moved, since the write would be lost; weights stay where they are unless
two of them meet; the host computes only where a weight is there or is written to; where the diagnosis does not tell, the first GPU
takes all: numbers do not depend on which.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from samedevice.events import Event, Operand, Running
from samedevice.findings import Finding
from samedevice.guards._align import tensors_of

if TYPE_CHECKING:
    import torch

_NAMES = {"__getitem__": "index", "__setitem__": "index_put_", "__matmul__": "matmul", "__rmatmul__": "matmul", "__truediv__": "div"}
_ARGUMENTS = {"embedding": {"input": "indices"}, "cross_entropy": {"input": "self"}, "nll_loss": {"input": "self"}}


def operator_name(function: Callable[..., Any]) -> str:
    """What torch calls the operator: `mul` for `__rmul__`, `add_` for `__iadd__`."""
    name = str(getattr(function, "__name__", "")).partition(".")[0]  # an overload is called `add.Tensor`
    if name in _NAMES:
        return _NAMES[name]
    if found := re.fullmatch(r"__(\w+?)__", name):
        word = found[1]
        known = {"add", "sub", "mul", "div", "pow", "mod", "and", "or", "xor", "eq", "ne", "lt", "le", "gt", "ge"}
        if word in known:
            return word
        if word[1:] in known:
            return f"{word[1:]}_" if word[0] == "i" else word[1:]
    return name


def named_tensors(function: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]) -> list[tuple[str, torch.Tensor]]:
    """The tensors of a call with their names in the operator's schema: `self`, `mat2`, `tensors[1]`."""
    name = operator_name(function)
    renamed = _ARGUMENTS.get(name, {})
    names = _parameter_names(function, name)
    found = []
    for index, value in enumerate(args):
        own = names[index] if index < len(names) else f"argument{index}"
        found += [(path, tensor) for path, _, tensor in tensors_of(value, renamed.get(own, own))]
    for key, value in kwargs.items():
        found += [(path, tensor) for path, _, tensor in tensors_of(value, renamed.get(key, key))]
    return found


def _parameter_names(function: Callable[..., Any], name: str) -> list[str]:
    import torch

    if inspect.isfunction(function):
        return list(inspect.signature(function).parameters)
    if schema := getattr(getattr(function, "default", function), "_schema", None):
        return [argument.name for argument in schema.arguments]
    for schema in torch._C._jit_get_schemas_for_operator(f"aten::{name}"):
        return [argument.name for argument in schema.arguments]
    return []


def is_one_step(function: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]) -> bool:
    """Whether a refused call has done nothing yet, so that it may be made again."""
    name = operator_name(function)
    if name in _PARTLY_DONE:
        return False
    given = _given(function, name, args, kwargs)
    return name not in _DRAWS or not given.get(_DRAWS[name]) or not given.get("training", True)


def written_to(function: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]) -> list[torch.Tensor]:
    """The tensors that the call writes to."""
    name = operator_name(function)
    given = _given(function, name, args, kwargs)
    written = [kwargs.get("out")]
    if name.endswith("_") and not name.endswith("__"):
        written += [*args[:1], given.get("self")]
    if given.get("inplace"):
        written += args[:1]
    if given.get("training", name not in _RUNNING) or given.get("use_input_stats"):
        written += [given.get(key) for key in _RUNNING.get(name, ())]
    if given.get("max_norm") is not None:
        written.append(given.get("weight"))
    written += [given.get(key) for key in _annotated(function)]
    return list({id(tensor): tensor for value in written for _, _, tensor in tensors_of(value)}.values())


_PARTLY_DONE = {"backward", "grad", "step"}
"""They have run parts of a graph, and written gradients, by the time they are refused."""
_DRAWS = {"multi_head_attention_forward": "dropout_p"}
"""Calls of several steps that draw random numbers on the way, and the argument that says so."""
_RUNNING = {"batch_norm": ("running_mean", "running_var"), "instance_norm": ("running_mean", "running_var")}
"""What a call updates without saying so in its schema."""


def _given(function: Callable[..., Any], name: str, args: Sequence[Any], kwargs: dict[str, Any]) -> dict[str, Any]:
    return {**dict(zip(_parameter_names(function, name), args, strict=False)), **kwargs}


def _annotated(function: Callable[..., Any]) -> list[str]:
    """Arguments of an operator that its schema says are written to."""
    packet = getattr(function, "default", function)
    schema = getattr(packet, "_schema", None)
    arguments = getattr(schema, "arguments", ())
    return [each.name for each in arguments if each.alias_info is not None and each.alias_info.is_write]


def target_of(
    finding: Finding,
    event: Event,
    named: Sequence[tuple[str, torch.Tensor]],
    written: Sequence[torch.Tensor],
) -> torch.device | None:
    """The device on which the call is to run; None when the evidence does not tell."""
    import torch

    if written:
        return written[0].device if len({tensor.device for tensor in written}) == 1 else None
    target = _where_it_belongs(finding, event, named)
    weighs = any(isinstance(tensor, torch.nn.Parameter) and tensor.device == target for _, tensor in named)
    if target is None or (target.type == "cpu" and not weighs):
        return next((tensor.device for _, tensor in named if tensor.device.type != "cpu"), None)  # any GPU gives the same numbers
    return target


def _where_it_belongs(finding: Finding, event: Event, named: Sequence[tuple[str, torch.Tensor]]) -> torch.device | None:
    """The device that the evidence points at, if any."""
    import torch

    guilty = _guilty(finding, named)
    if guilty is not None:
        if isinstance(guilty, torch.nn.Parameter):
            return guilty.device  # the others come to it
        others = [tensor for _, tensor in named if tensor.device != guilty.device]
        weights = [tensor for tensor in others if isinstance(tensor, torch.nn.Parameter)]
        if weights or others:
            return (weights or others)[0].device
    weights = [tensor for _, tensor in named if isinstance(tensor, torch.nn.Parameter)]
    if weights:
        return max(weights, key=lambda tensor: tensor.numel()).device
    home = next((device for each in event.running if (device := _home(each)) is not None), None)
    if home is not None and any(str(tensor.device) == home for _, tensor in named):
        return torch.device(home)
    return None


def _home(module: Running) -> str | None:
    """Where a running module lives: where its hook sends inputs, or the one device of its parameters."""
    return module.hook or next((places[0] for places in (module.own, module.below) if len(places) == 1), None)


def _guilty(finding: Finding, named: Sequence[tuple[str, torch.Tensor]]) -> torch.Tensor | None:
    """The tensor of the call that the finding's guilty operand is; an operator below the call may name it differently."""
    operand = next((each for each in finding.operands if each.name == finding.guilty), None)
    if operand is None:
        return None
    here = [(name, tensor) for name, tensor in named if str(tensor.device) == operand.device]
    for fits in (_same_name, _same_shape, _same_size):
        for name, tensor in here:
            if fits(operand, name, tensor):
                return tensor
    return here[0][1] if len(here) == 1 else None


def _same_name(operand: Operand, name: str, tensor: torch.Tensor) -> bool:
    return name == operand.name and tuple(tensor.shape) == operand.shape


def _same_shape(operand: Operand, _: str, tensor: torch.Tensor) -> bool:
    return tuple(tensor.shape) == operand.shape


def _same_size(operand: Operand, _: str, tensor: torch.Tensor) -> bool:
    return tuple(sorted(tensor.shape)) == tuple(sorted(operand.shape))
