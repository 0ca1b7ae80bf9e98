"""Cases of torch's databases of operators, modules and optimizers with one tensor elsewhere.

They are what the recorder records and the replay replays.

A case is named by plain data (operator, sample, kind of call, argument, dimensions), so that a recording made
on one machine can be replayed on another: samples are made on the CPU from a fixed seed.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils._pytree import tree_flatten, tree_unflatten

from evidence.engine import layer_cases, op_cases, statement_cases
from evidence.engine.layer_cases import ModuleCall, OptimizerCall
from evidence.engine.recordings import GRADIENT, GRADIENT_META, KINDS, META, MODULE_META, STATEMENT
from evidence.engine.statement_cases import StatementCall

SAMPLES = 20
"""Samples looked at per operator; see `chosen`."""
KINDS_OF_SAMPLES, OTHER_SAMPLES = 4, 4
OUT = -1
"""The position of an `out=` argument, or of the gradient that `backward` is given."""
ON_META = (META, GRADIENT_META, MODULE_META)
"""Kinds whose tensor is on the meta device, not on the CPU."""

AnyCall = op_cases.Call | ModuleCall | OptimizerCall | StatementCall

Result = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Case:
    """One argument of one call on the CPU, or on the meta device, everything else on the GPU."""

    op: str
    kind: str
    sample: int
    position: int
    """Among the tensors of the call, in order, members of lists counted; `OUT` for what `out=` takes."""
    scalar: bool
    """The argument is replaced by a 0-dim tensor."""

    @property
    def key(self) -> str:
        """The name of this case in a recording."""
        return f"{self.op}|{self.kind}|{self.sample}|{self.position}|{'0' if self.scalar else 'n'}"

    @property
    def sample_key(self) -> str:
        """The name of its sample in a recording."""
        return f"{self.op}|{self.sample}"


def case_of(key: str) -> Case:
    """The case with that name."""
    op, kind, sample, position, scalar = key.split("|")
    return Case(op, kind, int(sample), int(position), scalar == "0")


def chosen(op: Any) -> dict[int, op_cases.Call]:
    """The samples of an operator that are worth a case: of those with several tensors the first without
    scalars and the first with, and then some of the others.
    """
    kinds: dict[tuple[int, bool], int] = {}
    worth: dict[int, op_cases.Call] = {}
    for number, call in enumerate(list(op_cases.calls(op, SAMPLES))):
        tensors = call.tensors()
        if tensors and (len(tensors) > 1 or op.supports_out):
            worth[number] = call
            kinds.setdefault((len(tensors), any(tensor.dim() == 0 for tensor in tensors)), number)
    first = list(kinds.values())[:KINDS_OF_SAMPLES]
    others = [number for number in worth if number not in first]
    apart = max(1, len(others) // OTHER_SAMPLES)
    return {number: worth[number] for number in (*first, *others[::apart][:OTHER_SAMPLES])}


def names(kinds: Sequence[str]) -> list[str]:
    """Operators, modules, optimizers and statements of which there are such cases."""
    found = list(op_cases.operators()) if {*kinds} & {*KINDS, META, GRADIENT, GRADIENT_META} else []
    found += [name for name in layer_cases.layers() if {*kinds} & {*layer_cases.kinds_of(name)}]
    return found + (list(statement_cases.statements()) if STATEMENT in kinds else [])


def cases(name: str, kinds: Sequence[str] = KINDS) -> Iterator[tuple[Case, AnyCall]]:
    """Every case of an operator, a module, an optimizer or a statement, with the call that it changes."""
    if statement := statement_cases.statements().get(name):
        if STATEMENT in kinds:
            yield Case(name, STATEMENT, 0, 0, False), statement
        return
    if name in layer_cases.layers():
        asked = [kind for kind in layer_cases.kinds_of(name) if kind in kinds]
        for number, each in layer_cases.samples(name).items() if asked else ():
            for kind in asked:
                for position in each.positions():
                    yield Case(name, kind, number, position, False), each
    else:
        yield from _operator_cases(name, kinds)


def _operator_cases(name: str, kinds: Sequence[str]) -> Iterator[tuple[Case, op_cases.Call]]:
    op = op_cases.operators()[name]
    for number, call in chosen(op).items():
        tensors = call.tensors()
        for kind in kinds:
            if kind in (GRADIENT, GRADIENT_META):
                if op.supports_autograd and op_cases.dtype_for(op) is torch.float32:
                    yield Case(name, kind, number, OUT, False), call
                continue
            if (kind == "in-place" and op.inplace_variant is None) or (kind == "out" and not op.supports_out):
                continue
            if (kind == "alone" and len(tensors) < 3) or kind not in (*KINDS, META):
                continue
            positions = [OUT] if kind == "out" else range(len(tensors)) if len(tensors) > 1 else []
            for position in positions:
                yield Case(name, kind, number, position, False), call
                if (
                    kind != META
                    and position != OUT
                    and tensors[position].dim() > 0
                    and tensors[position].numel() > 0
                ):
                    yield Case(name, kind, number, position, True), call


def digest(call: AnyCall) -> str:
    """The tensors of a sample in short: `float32[5, 3] int64[3]`."""
    return " ".join(
        f"{str(tensor.dtype).removeprefix('torch.')}{list(tensor.shape)}" for tensor in call.tensors()
    )


def run(case: Case, call: AnyCall, other: str = "cpu", gpu: str = "cuda:0") -> Result:
    """What comes of a case here: `skip` when it does not run with all arguments on the GPU either; `fatal`
    tells a lost context.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            if case.kind != STATEMENT:  # some run on no single device
                _call(case, call, gpu, gpu)
            synchronize()
        except Exception as error:
            return {
                "outcome": "skip",
                "fatal": is_fatal(error),
                "type": type(error).__name__,
                "message": first_line(error),
            }
        try:
            results = _call(case, call, gpu, other)
            synchronize()
        except Exception as error:
            fatal = is_fatal(error)
            return {
                "outcome": "crash" if fatal else "error",
                "fatal": fatal,
                "type": type(error).__name__,
                "message": first_line(error),
            }
        return {
            "outcome": "ok",
            "devices": [
                str(leaf.device) if isinstance(leaf, torch.Tensor) else leaf
                for leaf in results
                if isinstance(leaf, torch.Tensor) or case.kind == STATEMENT
            ],
        }


def _call(case: Case, call: AnyCall, gpu: str, other: str) -> list[Any]:
    if case.kind == "alone":
        gpu, other = other, gpu
    if case.kind in ON_META and other != gpu:
        other = META
    if not isinstance(call, op_cases.Call):
        return call.displaced(case.position, gpu, other)
    if case.kind in (GRADIENT, GRADIENT_META):
        return _gradients(call, gpu, other)
    flat, spec = tree_flatten(op_cases.placed(op_cases.copied((call.args, call.kwargs)), gpu))
    if case.position != OUT:
        where = [i for i, leaf in enumerate(flat) if isinstance(leaf, torch.Tensor)][case.position]
        own = flat[where].detach()
        flat[where] = (own.flatten()[0].clone() if case.scalar else own).to(other)
    args, kwargs = tree_unflatten(flat, spec)
    torch.manual_seed(0)
    if case.kind == "in-place":
        return op_cases.leaves(call.op.inplace_variant(*args, **kwargs))
    function: Callable[..., Any] = call.function
    if case.kind == "out":
        plain = function(*args, **kwargs)
        if isinstance(plain, torch.Tensor):
            kwargs["out"] = torch.empty_like(plain.detach(), device=other)
        else:
            kwargs["out"] = tuple(torch.empty_like(each.detach(), device=other) for each in plain)
    return op_cases.leaves(function(*args, **kwargs))


def _gradients(call: op_cases.Call, gpu: str, other: str) -> list[Any]:
    """Gradients of all inputs on the GPU, with that of the first result elsewhere."""
    args, kwargs = op_cases.placed(op_cases.copied((call.args, call.kwargs)), gpu)
    inputs = [
        leaf.requires_grad_()
        for leaf in tree_flatten((args, kwargs))[0]
        if isinstance(leaf, torch.Tensor) and leaf.is_floating_point()
    ]
    torch.manual_seed(0)
    result = next(
        leaf
        for leaf in op_cases.leaves(call.differentiable(call.function(*args, **kwargs)))
        if isinstance(leaf, torch.Tensor) and leaf.requires_grad
    )
    gradient = torch.ones_like(result.detach()).to(other)
    return list(torch.autograd.grad(result, inputs, gradient, allow_unused=True))


def synchronize() -> None:
    """Wait for the GPU, so that a fault shows in the case that caused it."""
    torch.cuda.synchronize()


def is_fatal(error: BaseException) -> bool:
    """Whether the GPU's context is lost: an illegal access or an assertion, whichever library tells of it."""
    if "CUDA error" in str(error):
        return True
    try:
        synchronize()
    except Exception:
        return True
    return False


def first_line(error: BaseException) -> str:
    """The message of an exception without what follows it."""
    lines = str(error).strip().splitlines()
    return lines[0][:600] if lines else ""
