"""torch 2.6 and 2.7; each file for newer releases says what they brought."""

from __future__ import annotations

import functools
import importlib
import threading
from collections.abc import Callable
from types import CodeType
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


def _leave_untraced() -> Callable[[CodeType, bool], Any] | None:
    try:
        skip_code: Any = importlib.import_module("torch._C._dynamo.eval_frame").skip_code
    except (ImportError, AttributeError):
        return newer_leave_untraced()
    # Only the frame itself can be left out here: what it calls is traced all the same.
    return lambda code, below: skip_code(code)


def newer_leave_untraced() -> Callable[[CodeType, bool], Any] | None:
    """As newer releases do it."""
    try:
        eval_frame: Any = importlib.import_module("torch._C._dynamo.eval_frame")
        action, mark, strategy = (
            eval_frame._FrameAction,
            eval_frame.set_code_exec_strategy,
            eval_frame._FrameExecStrategy,
        )
    except (ImportError, AttributeError):
        return None

    def leave(code: CodeType, below: bool) -> None:
        mark(code, strategy(action.SKIP, action.SKIP if below else action.DEFAULT))

    return leave


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
    leave_untraced=_leave_untraced,
    nccl_checks_each_tensor=lambda backend: False,
    is_exporting=_is_exporting,
)
