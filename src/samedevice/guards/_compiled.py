"""Healing beside `torch.compile`.

What learns must see each call of torch, and what was learned must run on every call.

Note [Compiled code]
Compiled code makes none of torch's calls, and code that Dynamo traces drops what it cannot put into a graph.
So a call that is learned runs as it was written, whatever of it is compiled; and what healing puts on a
module is never traced: the graph breaks there, and the module's own forward is a graph again. With
`fullgraph=True` a model that needs a repair cannot be compiled; it runs as it was written.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

_Function = TypeVar("_Function", bound=Callable[..., Any])
_REASON = (
    "samedevice heals here, and what heals is not traced. With fullgraph=True heal the compiled model, "
    "sd.heal(torch.compile(model, ...)); remove() the healing before a strict export"
)


def untraced(*functions: Callable[..., Any], below: bool = True) -> None:
    """Dynamo never traces the functions; nor what they call, unless `below` is false.

    Raises nothing where another torch names its parts otherwise: what is not compiled is healed there all the
    same.
    """
    from samedevice.torch_versions.adapter import TORCH

    if (leave := TORCH.leave_untraced()) is None:
        return
    for function in functions:
        leave(function.__code__, below)
        vars(function).update(
            _torchdynamo_disable=True, _torchdynamo_disable_msg=_REASON
        )  # what torch._dynamo.disable sets


def breaking(layer: _Function) -> _Function:
    """The layer of a method, at which a graph breaks; the method itself is a graph again."""
    untraced(layer, below=False)
    return layer


@contextmanager
def as_written() -> Iterator[None]:
    """Inside the block compiled code runs as it was written."""
    import torch

    if torch.compile.__module__ != "torch":  # a virtual machine's, which runs everything eagerly
        yield
        return
    with torch.compiler.set_stance("force_eager"):
        yield


def eagerly(function: _Function) -> _Function:
    """The function, with whatever is compiled below it run as it was written."""
    if "torch._dynamo" not in sys.modules:  # nothing is compiled
        return function
    import torch

    def run(*args: Any, **kwargs: Any) -> Any:
        with torch.compiler.set_stance("force_eager"):
            return function(*args, **kwargs)

    untraced(run)
    return run  # type: ignore[return-value] # the same arguments and the same result


def breaks_a_full_graph(error: BaseException) -> bool:
    """Whether Dynamo refuses to compile, where `fullgraph=True` allows no break."""
    dynamo = sys.modules.get("torch._dynamo.exc")
    return dynamo is not None and isinstance(error, dynamo.Unsupported)


def in_one_graph(module: Any) -> bool:
    """Whether a module is compiled as one graph that must not break, or it cannot be told."""
    if "_orig_mod" in module._modules:
        context = vars(module).get("dynamo_ctx")
        return bool(getattr(context, "fullgraph", getattr(context, "nopython", True)))
    return vars(module).get("_compiled_call_impl") is not None


def is_recorded() -> bool:
    """Whether the calls of torch become a graph for later: `torch.export`, `torch.jit.trace`, `make_fx`."""
    import torch

    from samedevice.torch_versions.adapter import TORCH

    return TORCH.is_exporting() or torch._C._get_tracing_state() is not None
