"""Cases out of torch's operator database: the same call on plain CPU torch and on a virtual machine.

Shared by the sweeps (all operators, minutes) and the tests (a fixed choice, seconds).
"""

from __future__ import annotations

import functools
import math
import operator
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils._pytree import tree_flatten, tree_map, tree_unflatten

from samedevice.machines import parse_machine
from samedevice.runtime import VirtualMachine

MACHINE = parse_machine("2x24GB")
DTYPES = (torch.float32, torch.int64, torch.bool, torch.complex64)
MOST_ELEMENTS = 4096
KINDS = ("forward", "backward", "in-place", "out")

# Not comparable by value: memory that nothing wrote, or results of algorithms with a free choice (signs of
# singular vectors).
UNDEFINED = {
    "empty": "not initialized",
    "empty_like": "not initialized",
    "empty_permuted": "not initialized",
    "empty_strided": "not initialized",
    "new_empty": "not initialized",
    "new_empty_strided": "not initialized",
    "resize_": "not initialized",
    "resize_as_": "not initialized",
}


@dataclass
class Outcome:
    """What came of one case."""

    status: str
    """`pass`, `differs`, `error`, or `skip` where plain CPU torch has no answer either."""
    note: str = ""


@dataclass
class Call:
    """One sample: a function and its arguments on the CPU."""

    op: Any
    function: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any] = field(default_factory=dict)
    differentiable: Callable[[Any], Any] = lambda result: result
    """The part of the result that has gradients."""

    def tensors(self) -> list[torch.Tensor]:
        return [leaf for leaf in tree_flatten((self.args, self.kwargs))[0] if isinstance(leaf, torch.Tensor)]


def name_of(op: Any) -> str:
    """`norm.fro`: an operator and the variant of its samples."""
    return f"{op.name}.{op.variant_test_name}" if op.variant_test_name else str(op.name)


@functools.cache
def operators() -> dict[str, Any]:
    """Every operator that torch has for CUDA, by name."""
    return {
        name_of(op): op
        for op in op_db
        if set(op.dtypesIfCUDA or ()) & set(op.dtypes or ()) and op.name != "histc"
    }


def dtype_for(op: Any) -> torch.dtype | None:
    """The first type that the operator has on both kinds of device."""
    both = set(op.dtypesIfCUDA) & set(op.dtypes)
    return next((dtype for dtype in DTYPES if dtype in both), None)


def calls(op: Any, count: int, *, requires_grad: bool = False) -> Iterator[Call]:
    """The first small samples of an operator."""
    dtype = dtype_for(op)
    if dtype is None:
        return
    torch.manual_seed(0)
    found = 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        # Seeded once: torch would seed every sample, and prepares a traceback for each kind of device then.
        gradients = requires_grad and op.supports_autograd
        for sample in op.sample_inputs("cpu", dtype, requires_grad=gradients, set_seed=False):
            call = Call(
                op,
                function_of(op),
                (sample.input, *sample.args),
                dict(sample.kwargs),
                sample.output_process_fn_grad,
            )
            if sum(tensor.numel() for tensor in call.tensors()) > MOST_ELEMENTS:
                continue
            yield call
            found += 1
            if found == count:
                return


def function_of(op: Any) -> Callable[..., Any]:
    """What a script would call: the database took its functions from torch before any machine was entered."""
    if op.name == "__getitem__":
        return operator.getitem
    if getattr(torch, op.name, None) is op.op:

        def now(*args: Any, **kwargs: Any) -> Any:
            return getattr(torch, op.name)(*args, **kwargs)

        return now
    return op.op  # type: ignore[no-any-return]  # torch leaves it untyped


def copied(tree: Any) -> Any:
    """The same arguments in memory of their own, laid out as a move to another device would lay them out."""

    def copy(leaf: Any) -> Any:
        return (
            leaf.detach().clone().requires_grad_(leaf.requires_grad)
            if isinstance(leaf, torch.Tensor)
            else leaf
        )

    return tree_map(copy, tree)


def placed(tree: Any, device: str) -> Any:
    """Arguments on a device; `device` arguments name it too."""

    def place(leaf: Any) -> Any:
        if isinstance(leaf, torch.Tensor):
            moved = leaf.detach().to(device)
            return moved.requires_grad_(leaf.requires_grad)
        if leaf == "cpu" or leaf == torch.device("cpu"):
            return device
        return leaf

    return tree_map(place, tree)


def leaves(tree: Any) -> list[Any]:
    """Tensors and plain values of a result, in order."""
    if not isinstance(tree, torch.Tensor) and hasattr(tree, "_fields"):
        tree = tuple(tree)
    if isinstance(tree, torch.nn.utils.rnn.PackedSequence):
        tree = tuple(tree)
    return tree_flatten(tree)[0]


def describe(leaf: Any, *, values: bool = True) -> Any:
    """Everything of a result that must agree, as plain data; the stride of a dimension of one element means
    nothing.
    """
    if not isinstance(leaf, torch.Tensor):
        return leaf
    geometry: tuple[Any, ...] = (str(leaf.layout), tuple(leaf.shape), str(leaf.dtype), leaf.requires_grad)
    if leaf.layout == torch.strided:
        geometry += (
            tuple(s if n > 1 else 0 for s, n in zip(leaf.stride(), leaf.shape, strict=True)),
            leaf.storage_offset(),
        )
    return geometry, (host(leaf) if values else None)


def host(tensor: torch.Tensor) -> torch.Tensor:
    """The values, as a real CPU tensor."""
    found = tensor.detach().cpu()
    found = found.to_dense() if found.layout != torch.strided else found
    return (
        torch.from_numpy(found.resolve_conj().resolve_neg().numpy())
        if found.dtype != torch.bfloat16
        else found
    )


def same_values(one: torch.Tensor, other: torch.Tensor) -> bool:
    if one.shape != other.shape or one.dtype != other.dtype:
        return False
    if one.is_floating_point() or one.is_complex():
        return torch.allclose(one, other, rtol=1e-5, atol=1e-6, equal_nan=True)
    return torch.equal(one, other)


def difference(expected: Any, found: Any) -> str:
    """In what two descriptions differ; empty when they agree."""
    if not isinstance(expected, tuple) or not isinstance(found, tuple):
        same = expected == found or (
            isinstance(expected, float) and math.isclose(expected, found, rel_tol=1e-5)
        )
        same = same or (isinstance(expected, float) and math.isnan(expected) and math.isnan(found))
        return "" if same else f"{expected!r} became {found!r}"
    if expected[0] != found[0]:
        return f"geometry {expected[0]} became {found[0]}"
    if expected[1] is not None and not same_values(expected[1], found[1]):
        return f"values {short(expected[1])} became {short(found[1])}"
    return ""


def short(tensor: torch.Tensor) -> str:
    return str(tensor.flatten()[:4].tolist())


def first_difference(expected: list[Any], found: list[Any]) -> str:
    if len(expected) != len(found):
        return f"{len(expected)} results became {len(found)}"
    return next(
        (text for one, other in zip(expected, found, strict=True) if (text := difference(one, other))), ""
    )


# -- the kinds of call


def forward(call: Call, args: Any, kwargs: Any) -> list[Any]:
    return leaves(call.function(*args, **kwargs))


def backward(call: Call, args: Any, kwargs: Any) -> list[Any]:
    """Gradients of the sum of all differentiable results."""
    inputs = [
        leaf
        for leaf in tree_flatten((args, kwargs))[0]
        if isinstance(leaf, torch.Tensor) and leaf.requires_grad
    ]
    output = call.differentiable(call.function(*args, **kwargs))
    results = [leaf for leaf in leaves(output) if isinstance(leaf, torch.Tensor) and leaf.requires_grad]
    if not inputs or not results:
        raise NotDifferentiable
    total = torch.stack(
        [(result.abs() if result.is_complex() else result * result).sum().double() for result in results]
    ).sum()
    return list(torch.autograd.grad(total, inputs, allow_unused=True))


def in_place(call: Call, args: Any, kwargs: Any) -> list[Any]:
    result = call.op.inplace_variant(*args, **kwargs)
    return [*leaves(result), args[0]]


def out(call: Call, args: Any, kwargs: Any) -> list[Any]:
    """With an `out=` of the right size, a strided one and an empty one that is resized."""
    plain = call.function(*args, **kwargs)
    single = isinstance(plain, torch.Tensor)
    results = [plain] if single else list(plain)
    found: list[Any] = []
    for shape_of in (torch.zeros_like, lambda result: result.new_zeros(0)):
        outs = [shape_of(result.detach()) for result in results]
        returned = call.function(*args, **kwargs, out=outs[0] if single else tuple(outs))
        found += [*leaves(returned), *outs]
    return found


class NotDifferentiable(Exception):
    """The sample has no gradient."""


RUN: dict[str, Callable[[Call, Any, Any], list[Any]]] = {
    "forward": forward,
    "backward": backward,
    "in-place": in_place,
    "out": out,
}


def applies(op: Any, kind: str) -> bool:
    if kind == "backward":
        return bool(op.supports_autograd and dtype_for(op) is torch.float32)
    if kind == "in-place":
        return op.inplace_variant is not None
    return bool(op.supports_out) if kind == "out" else True


def compare(call: Call, kind: str) -> Outcome:
    """Run a call outside and inside a machine and compare everything."""
    values = call.op.name not in UNDEFINED
    run = RUN[kind]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        args, kwargs = copied((call.args, call.kwargs))
        torch.manual_seed(0)
        try:
            expected = [describe(leaf, values=values) for leaf in run(call, args, kwargs)]
        except Exception as error:
            return Outcome("skip", f"on the CPU: {first_line(error)}")
        machine = VirtualMachine(MACHINE, on_mismatch="record")
        with machine:
            args, kwargs = placed(copied((call.args, call.kwargs)), "cuda:0")
            torch.manual_seed(0)
            try:
                results = run(call, args, kwargs)
                found = [describe(leaf, values=values) for leaf in results]
                places = [str(leaf.device) for leaf in results if isinstance(leaf, torch.Tensor)]
            except Exception as error:
                return Outcome("error", first_line(error))
            finally:
                del args, kwargs
    if machine.events:
        return Outcome("differs", f"finding: {machine.events[0].op} {machine.events[0].message}")
    text = first_difference(expected, found)
    if text:
        return Outcome("differs", text)
    strangers = {place for place in places if place != "cuda:0"}
    return Outcome("differs", f"results on {sorted(strangers)}") if strangers else Outcome("pass")


def first_line(error: BaseException) -> str:
    return f"{type(error).__name__}: {str(error).strip().splitlines()[0] if str(error).strip() else ''}"[:300]


def check(op: Any, kind: str, count: int = 2) -> Outcome:
    """All samples of one operator in one kind; the first that does not pass decides."""
    if not applies(op, kind):
        return Outcome("skip", "does not apply")
    outcome = Outcome("skip", "no small sample")
    for call in calls(op, count, requires_grad=kind == "backward"):
        new = compare(call, kind)
        if new.status not in ("pass", "skip"):
            return new
        if outcome.status != "pass":
            outcome = new
    return outcome


# -- one argument elsewhere


@dataclass
class Placement:
    """What came of one call with one argument on another device."""

    status: str
    """`reported`, `silent` (the machine saw nothing wrong), `differs`, `error` or `skip`."""
    note: str = ""


def displaced(call: Call, position: int, device: str) -> Placement:
    """Run with all arguments on `cuda:0` but one; the result must be that of all on `cuda:0`."""
    values = call.op.name not in UNDEFINED
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        machine = VirtualMachine(MACHINE, on_mismatch="record")
        with machine:
            args, kwargs = placed(copied((call.args, call.kwargs)), "cuda:0")
            torch.manual_seed(0)
            try:
                expected = [describe(leaf, values=values) for leaf in forward(call, args, kwargs)]
            except Exception as error:
                return Placement("skip", first_line(error))
            if machine.events:
                return Placement("skip", "refused on one device")
            flat, spec = tree_flatten(placed(copied((call.args, call.kwargs)), "cuda:0"))
            where = [i for i, leaf in enumerate(flat) if isinstance(leaf, torch.Tensor)][position]
            flat[where] = flat[where].detach().to(device)
            args, kwargs = tree_unflatten(flat, spec)
            torch.manual_seed(0)
            try:
                results = forward(call, args, kwargs)
                found = [describe(leaf, values=values) for leaf in results]
            except Exception as error:
                return Placement("error", first_line(error))
            finally:
                del args, kwargs, flat
    text = first_difference(expected, found)
    if text:
        return Placement("differs", text)
    if not machine.events:
        return Placement("silent")
    return Placement("reported", f"{machine.events[0].op}: {machine.events[0].message}")


def displacements(op: Any, device: str, count: int = 1) -> Iterator[tuple[int, str, Placement]]:
    """Each tensor argument of the first samples that have several, put elsewhere once: (position, shape,
    outcome).
    """
    several = [call for call in calls(op, 8) if len(call.tensors()) > 1]
    several.sort(
        key=lambda call: any(tensor.dim() == 0 for tensor in call.tensors())
    )  # those without scalars first
    for call in several[:count]:
        tensors = call.tensors()
        for position in range(min(len(tensors), 5)):
            yield position, str(tuple(tensors[position].shape)), displaced(call, position, device)
