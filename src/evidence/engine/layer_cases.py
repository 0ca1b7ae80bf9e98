"""Cases of torch's databases of modules and of optimizers, with one tensor elsewhere.

A module's tensors are its parameters and buffers, in order, and then what its `forward` takes. An optimizer's
are what it keeps for its first parameter after one step; they are on another device at the second one.
"""

from __future__ import annotations

import copy
import functools
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.testing._internal.common_modules import module_db
from torch.testing._internal.common_optimizers import optim_db
from torch.utils._pytree import tree_flatten, tree_unflatten

from evidence.engine import op_cases
from evidence.engine.recordings import MODULE, MODULE_META, OPTIMIZER

ALL = -1
"""The position of all that a module or an optimizer keeps."""
PARAMETERS = -2
"""The position of an optimizer's parameters, which stay behind or are moved after its first step."""
SAMPLES = 4
MOST_WEIGHTS = 8
"""Positions of weights that are worth a case: a Transformer has dozens that are alike."""


@dataclass
class ModuleCall:
    """One sample: a module on the CPU, built from a fixed seed, and what it is called with."""

    module: torch.nn.Module
    args: tuple[Any, ...]
    kwargs: dict[str, Any]

    def tensors(self) -> list[torch.Tensor]:
        """Weights, then inputs."""
        return [*(tensor for _, _, tensor in _weights(self.module)), *self.inputs()]

    def inputs(self) -> list[torch.Tensor]:
        """What `forward` takes."""
        return [leaf for leaf in tree_flatten((self.args, self.kwargs))[0] if isinstance(leaf, torch.Tensor)]

    def positions(self) -> Iterator[int]:
        """What is worth a case."""
        weights, inputs = len(_weights(self.module)), len(self.inputs())
        if weights:
            yield ALL
        if weights + inputs > 1:
            yield from range(min(weights, MOST_WEIGHTS))
            yield from range(weights, weights + inputs)

    def displaced(self, position: int, gpu: str, other: str) -> list[Any]:
        """Results with all on the GPU but one."""
        module = copy.deepcopy(self.module).to(other if position == ALL else gpu)
        weights = _weights(module)
        if 0 <= position < len(weights):
            owner, name, tensor = weights[position]
            moved = tensor.detach().to(other)
            parameter = isinstance(tensor, torch.nn.Parameter)
            setattr(owner, name, torch.nn.Parameter(moved, tensor.requires_grad) if parameter else moved)
        flat, spec = tree_flatten(op_cases.placed(op_cases.copied((self.args, self.kwargs)), gpu))
        if position >= len(weights):
            where = [i for i, leaf in enumerate(flat) if isinstance(leaf, torch.Tensor)]
            flat[where[position - len(weights)]] = flat[where[position - len(weights)]].detach().to(other)
        args, kwargs = tree_unflatten(flat, spec)
        torch.manual_seed(0)
        return op_cases.leaves(module(*args, **kwargs))


@dataclass
class OptimizerCall:
    """One configuration of an optimizer."""

    kind: Any
    """Its class."""
    options: dict[str, Any]

    def tensors(self) -> list[torch.Tensor]:
        """What it keeps for its first parameter."""
        parameters, optimizer = self._stepped("cpu")
        return [tensor for _, tensor in _kept(optimizer, parameters[0])]

    def positions(self) -> Iterator[int]:
        """What is worth a case."""
        yield PARAMETERS
        kept = self.tensors()
        if kept:
            yield ALL
            yield from range(len(kept))

    def displaced(self, position: int, gpu: str, other: str) -> list[Any]:
        """Parameters and state after the second step."""
        parameters, optimizer = self._stepped(gpu)
        kept = _kept(optimizer, parameters[0])
        if position == PARAMETERS:
            for parameter in parameters:
                parameter.grad = None
                parameter.data = parameter.data.to(other)
        elif position == ALL:
            for parameter in parameters:
                for key, tensor in _kept(optimizer, parameter):
                    optimizer.state[parameter][key] = tensor.to(other)
        else:
            key, tensor = kept[position]
            optimizer.state[parameters[0]][key] = tensor.to(other)
        _step(parameters, optimizer)
        return [*parameters, *(tensor for _, tensor in _kept(optimizer, parameters[0]))]

    def _stepped(self, device: str) -> tuple[list[torch.nn.Parameter], Any]:
        torch.manual_seed(0)
        made = [torch.nn.Parameter(torch.randn(4, 3).to(device)) for _ in range(2)]
        options = copy.deepcopy(self.options)
        if device == "cpu":
            for way in ("capturable", "foreach", "fused"):  # not there for all options
                options.pop(way, None)
        optimizer = self.kind(made, **options)
        _step(made, optimizer)
        return made, optimizer


def _step(parameters: Sequence[torch.nn.Parameter], optimizer: Any) -> None:
    for parameter in parameters:
        parameter.grad = torch.ones_like(parameter)
    if isinstance(optimizer, torch.optim.LBFGS):
        optimizer.step((parameters[0] * parameters[0]).sum)
    else:
        optimizer.step()


def _kept(optimizer: Any, parameter: torch.nn.Parameter) -> list[tuple[str, torch.Tensor]]:
    state = optimizer.state.get(parameter, {})
    return [(key, value) for key, value in state.items() if isinstance(value, torch.Tensor)]


def _weights(module: torch.nn.Module) -> list[tuple[torch.nn.Module, str, torch.Tensor]]:
    """Each parameter, then each buffer: who has it, under what name."""
    tables = ((each, (each._parameters, each._buffers)) for each in module.modules())
    found = [
        (owner, name, tensor)
        for owner, both in tables
        for table in both
        for name, tensor in table.items()
        if tensor is not None
    ]
    return sorted(found, key=lambda weight: not isinstance(weight[2], torch.nn.Parameter))


@functools.cache
def layers() -> dict[str, Any]:
    """Every module and optimizer by name. Lazy modules have no weights yet; SparseAdam takes other
    gradients.
    """
    found: dict[str, Any] = {info.name: info for info in module_db if not info.name.startswith("nn.Lazy")}
    for optimizer in optim_db:
        if not optimizer.only_supports_sparse_grads:
            kind: Any = optimizer.optim_cls
            found[f"optim.{kind.__name__}"] = optimizer
    return found


def kinds_of(name: str) -> tuple[str, ...]:
    """The kinds of cases that there are of it."""
    return (OPTIMIZER,) if name.startswith("optim.") else (MODULE, MODULE_META)


def samples(name: str) -> dict[int, ModuleCall | OptimizerCall]:
    """Some samples by number: the first with each number of tensors, and then others in between."""
    info = layers()[name]
    if name.startswith("optim."):
        return dict(enumerate(_optimizers(info)))
    every = list(_modules(info))
    first: dict[int, int] = {}
    for number, call in enumerate(every):
        first.setdefault(len(call.tensors()), number)
    few = list(first.values())[:SAMPLES]
    rest = [number for number in range(len(every)) if number not in few]
    return {number: every[number] for number in (*few, *rest[:: max(1, len(rest) // SAMPLES)][:SAMPLES])}


def _modules(info: Any) -> Iterator[ModuleCall]:
    torch.manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        drawn = info.module_inputs_func(
            info, device="cpu", dtype=torch.float32, requires_grad=False, training=True
        )
        for each in drawn:
            if each.forward_input is None:
                continue
            torch.manual_seed(0)
            module = info.module_cls(*each.constructor_input.args, **each.constructor_input.kwargs)
            call = ModuleCall(module, tuple(each.forward_input.args), dict(each.forward_input.kwargs))
            if sum(tensor.numel() for tensor in call.inputs()) <= op_cases.MOST_ELEMENTS:
                yield call


def _optimizers(info: Any) -> Iterator[OptimizerCall]:
    ways: list[dict[str, Any]] = [{}]
    ways += [{way: True} for way in ("foreach", "fused") if way in info.supported_impls]
    if "foreach" in info.supported_impls:
        ways[0] = {"foreach": False}
    for each in info.optim_inputs_func(device="cuda"):
        for way in ways:
            yield OptimizerCall(info.optim_cls, {**each.kwargs, **way})
