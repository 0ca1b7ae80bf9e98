"""torch 2.6 and 2.7; each file for newer releases says what they brought."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import Any, NoReturn

import torch

from samedevice.errors import UnsupportedFeatureError
from samedevice.torch_versions.differences import Differences, Hooks

_autograd: Any = torch._C._autograd


def _work_that_calls(wait: Callable[..., bool]) -> Any:
    return _calling_work()(wait)


@functools.cache
def _calling_work() -> Callable[[Callable[..., bool]], Any]:
    import torch._C._distributed_c10d as c10d  # not in every build

    work: Any = c10d.Work

    class CallingWork(work):  # type: ignore[misc]  # torch's class is Any here
        def __init__(self, wait: Callable[..., bool]) -> None:
            super().__init__()
            self._wait = wait

        def wait(self, timeout: Any = None) -> bool:
            return self._wait(timeout)

    return CallingWork


class _Asked(threading.local):
    """What the collective that this thread calls was asked for."""

    kind: Any = None


_asked = _Asked()


def _noting_reductions(original: Callable[..., Any]) -> Callable[..., Any]:
    """The dispatcher hands on a reduction that does not tell its kind: it is read from the call."""

    @functools.wraps(original)
    def collective(group: Any, *args: Any, **kwargs: Any) -> Any:
        before = _asked.kind
        for given in (*args, *kwargs.values()):
            reduction = getattr(given, "reduceOp", given)
            if hasattr(reduction, "RedOpType") or type(reduction).__name__ == "RedOpType":
                _asked.kind = getattr(reduction, "op", reduction)
        try:
            return original(group, *args, **kwargs)
        finally:
            _asked.kind = before

    return collective


def _reduction_of(boxed: Any) -> Any:
    import torch._C._distributed_c10d as c10d  # not in every build

    kinds: Any = c10d.ReduceOp.RedOpType
    return kinds.SUM if _asked.kind is None else _asked.kind  # SUM is the default of each call


def _saved_tensor_hooks() -> Hooks | None:
    """Hooks that refuse where the program has some: they cannot be read, and with others over them they would
    no longer be called.
    """
    disabled = _autograd._saved_tensors_hooks_get_disabled_error_message()
    try:
        _autograd._saved_tensors_hooks_disable("asking whether there are hooks")  # raises where there are
        return None
    except RuntimeError:
        return _refuse, _refuse
    finally:
        _autograd._saved_tensors_hooks_enable()
        if disabled is not None:
            _autograd._saved_tensors_hooks_disable(disabled)


def _refuse(*_: Any) -> NoReturn:
    raise UnsupportedFeatureError(
        "healing inside of hooks for saved tensors (a checkpoint sets some) needs torch 2.8 or newer"
    )


def _is_exporting() -> bool:
    return torch.compiler.is_compiling()


DIFFERENCES = Differences(
    accelerator_error=RuntimeError,
    work_that_calls=_work_that_calls,
    reduction_of=_reduction_of,
    noting_reductions=_noting_reductions,
    saved_tensor_hooks=_saved_tensor_hooks,
    save_leaves_a_cycle=True,
    dlpack_of_current_gpu_only=False,
    nccl_checks_each_tensor=lambda backend: False,
    is_exporting=_is_exporting,
)
