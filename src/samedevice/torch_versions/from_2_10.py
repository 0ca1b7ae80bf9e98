"""torch 2.10 to 2.14."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from samedevice.torch_versions import from_2_8 as older


def _reduction_of(boxed: Any) -> Any:
    return boxed.op()


def _work_that_calls(wait: Callable[..., bool]) -> Any:
    from torch._C._distributed_c10d import PythonCallbackWork  # not in every build

    return PythonCallbackWork(wait)


DIFFERENCES = replace(
    older.DIFFERENCES,
    work_that_calls=_work_that_calls,
    reduction_of=_reduction_of,
    noting_reductions=None,
    save_leaves_a_cycle=False,
    dlpack_of_current_gpu_only=True,
)
