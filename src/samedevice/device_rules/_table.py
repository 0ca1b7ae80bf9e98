"""The device-rule table: rows written by hand where the declarations cannot tell, else derived from them."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from dataclasses import replace

from samedevice.device_rules._declarations import Declaration, declarations
from samedevice.device_rules._hand import ROWS
from samedevice.device_rules._rows import Check, Demand, Row

_TORCHS_OWN = frozenset(
    {
        "aten",
        "prims",
        "quantized",
        "sparse",
        "c10d",
        "_c10d_functional",
        "profiler",
        "inductor",
        "rngprims",
        "torch_nn",
    }
)
"""Namespaces of torch itself; all others are other libraries'."""


def of_another_library(op: str) -> bool:
    """Whether an operator is neither torch's own nor a Triton kernel."""
    namespace = op.partition(".")[0]
    return "." in op and namespace not in _TORCHS_OWN and namespace != "triton"


def table_of(rows: Iterable[Row]) -> dict[str, Row]:
    """Rows by operator; raises ValueError for a second row of the same operator."""
    found: dict[str, Row] = {}
    for row in rows:
        if row.op in found:
            raise ValueError(f"two rows for operator {row.op}")
        found[row.op] = row
    return found


_BY_HAND = table_of(ROWS)


def rows_by_hand() -> dict[str, Row]:
    """The rows that were written by hand, by operator."""
    return dict(_BY_HAND)


@functools.cache
def row_for(op: str) -> Row:
    """The row of an operator.

    `op` is `namespace.name.overload` as the dispatcher prints it (`aten.mul.Tensor`). An operator of torch
    that neither the declarations nor a row know is treated as strict. An operator of another library may
    check or not, and nobody can tell from outside: its row says unchecked, which is reported and never
    raised.
    """
    namespace, _, rest = op.partition(".")
    name = rest.removesuffix(".default")
    if namespace not in _TORCHS_OWN:
        return Row(op, Check.UNCHECKED, source="default: an operator of another library")
    if namespace != "aten":
        return Row(op, Check.ITERATOR_STRICT, source="default: not among torch's declared operators")
    if name in _BY_HAND:
        return _completed(_BY_HAND[name])
    declared = declarations().get(name)
    if declared is None:
        return _generated_out(name) or Row(name, Check.ITERATOR, source="default: not declared")
    if declared.explicit and not declared.cuda:
        return Row(name, Check.PARTS)
    if not declared.checked:
        if declared.structured and declared.outputs and not declared.iterator:
            return _structured_out(declared)
        # TensorIterator.cpp: the configurations of unary operators, unlike those of binary ones, allow no CPU
        # scalars.
        check = Check.ITERATOR if len(declared.positional) > 1 else Check.ITERATOR_STRICT
        listed = (
            "TensorIterator" in declared.remark or "foreach" in declared.remark or name.startswith("special_")
        )
        return (
            Row(name, check)
            if listed
            else Row(name, check, source="default: declared as not checked by the wrapper")
        )
    if not declared.cuda:
        return Row(name, Check.ITERATOR_STRICT, source="default: composite")
    return _completed(Row(name, Check.WRAPPER))


@functools.cache
def on_host(op: str) -> frozenset[str]:
    """The arguments that an operator reads on the host wherever its others are; `op` as in `row_for`."""
    wanted = (demand.others for demand in row_for(op).demands if not demand.reference)
    return frozenset(name for names in wanted for name in names)


@functools.cache
def only_on_cpu(op: str) -> bool:
    """Whether torch declares a kernel of the CPU for an operator and none for CUDA; `op` as in `row_for`."""
    namespace, _, rest = op.partition(".")
    name = rest.removesuffix(".default")
    declared = declarations().get(name) or declarations().get(_functional(name))
    return namespace == "aten" and declared is not None and declared.only_on_cpu


@functools.cache
def sparse_row_for(op: str, key: str) -> Row:
    """The row of an operator whose sparse tensors take it to another kernel, with a wrapper of its own.

    `key` is the dispatch key: `SparseCUDA` (COO) or `SparseCsrCUDA` (compressed rows, columns or blocks).
    """
    name = op.partition(".")[2].removesuffix(".default")
    if name == "_sparse_addmm":  # SparseTensorMath.cpp, _sparse_addmm: calls addmm
        return replace(
            sparse_row_for("aten.addmm", key), op=name, names=(("sparse", "mat1"), ("dense", "mat2"))
        )
    declared = declarations().get(name)
    if not op.startswith("aten.") or declared is None or key not in declared.keys or not declared.checked:
        return row_for(op)
    base, _, overload = name.partition(".")
    base += "_out" if declared.outputs else ""
    method, order = f"wrapper_{key}_{overload}_{base}", declared.outputs + declared.positional
    return Row(name, Check.WRAPPER, method=method, order=order)


@functools.cache
def lacks_sparse(op: str, key: str) -> bool:
    """Whether torch declares such a kernel of the CPU and none of CUDA; `op` and `key` as above."""
    declared = declarations().get(op.partition(".")[2].removesuffix(".default"))
    if not op.startswith("aten.") or declared is None or key in declared.keys:
        return False
    composite = any(each.startswith("Composite") for each in declared.keys)
    return key.replace("CUDA", "CPU") in declared.keys and not composite


_GENERATED_OUTS = ("out", "out0", "out1", "out2", "out3")
_ELSEWHERE = "Expected out tensor to have device {0}, but got {1} instead"
"""Of a structured kernel and of an out= variant that torchgen makes, when they write their results."""


def _structured_out(declared: Declaration) -> Row:
    """The row of a structured kernel that is no TensorIterator, and that no wrapper checks.

    Its results get their sizes before it runs, and must then be where its first input is.
    """
    demand = Demand(declared.positional[0], declared.outputs, _ELSEWHERE)
    source = "torchgen/dest/register_dispatch_key.py, gen_resize_out_helper"
    return Row(declared.name, Check.FREE, demands=(demand,), source=source)


def _generated_out(name: str) -> Row | None:
    """The row of an out= variant that torchgen makes.

    It calls the operator itself and copies what comes of it.
    """
    functional = _functional(name)
    if functional == name or functional not in declarations():
        return None
    copied = Demand("self", _GENERATED_OUTS, _ELSEWHERE)
    row = row_for(f"aten.{functional}")
    return replace(
        row,
        op=name,
        check=Check.ITERATOR_STRICT if row.check is Check.PARTS else row.check,
        free=row.free | set(_GENERATED_OUTS),
        then=Row(name, Check.FREE, demands=(copied,)),
        source=f"torchgen/native_function_generation.py, gen_composite_out_kernel: calls {functional}, then "
        "copy_arg",
    )


def _functional(name: str) -> str:
    return name.removesuffix("_out") if name.endswith("_out") else name.removesuffix(".out")


def _completed(row: Row) -> Row:
    """A row of a wrapper with the wrapper's name.

    It has the arguments that the wrapper looks at, too, unless it says so itself.
    """
    if row.check is not Check.WRAPPER or row.method is not None:
        return row
    declared = declarations().get(row.op)
    if declared is None:
        return row
    return replace(row, method=declared.wrapper, order=row.order or declared.outputs + declared.positional)
