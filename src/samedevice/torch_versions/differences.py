"""What differs between the releases of torch, as far as this package relies on it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import CodeType
from typing import Any

Hooks = tuple[Callable[..., Any], Callable[..., Any]]
"""What packs and what unpacks the tensors that autograd saves."""


@dataclass(frozen=True, slots=True)
class Differences:
    """The answers of one range of releases."""

    accelerator_error: type[RuntimeError]
    """What a refusal of the CUDA runtime is raised as."""
    work_that_calls: Callable[[Callable[..., bool]], Any]
    """A piece of work of a collective that calls a function when it is waited for."""
    reduction_of: Callable[[Any], Any]
    """The kind of reduction that a collective was asked for, from what the dispatcher hands on."""
    noting_reductions: Callable[[Callable[..., Any]], Callable[..., Any]] | None
    """Wraps a method of a process group so that `reduction_of` can tell, where it needs that."""
    saved_tensor_hooks: Callable[[], Hooks | None]
    """The innermost hooks of the program for tensors that autograd saves."""
    save_leaves_a_cycle: bool
    """Whether the storages that `torch.save` wrote are held by a reference cycle, and the collector clears
    their attributes with it.
    """
    dlpack_of_current_gpu_only: bool
    """Whether DLPack takes only tensors of the current GPU."""
    leave_untraced: Callable[[], Callable[[CodeType, bool], Any] | None]
    """What tells Dynamo never to trace some code, nor what it calls where that is asked for, too; None where
    this torch has no such function. Without importing `torch._dynamo`, which takes seconds.
    """
    nccl_checks_each_tensor: Callable[[str], bool]
    """Whether a group with this backend compares each tensor of a collective with its GPU, in the words of
    `ProcessGroupNCCL2`.
    """
    is_exporting: Callable[[], bool]
    """Whether `torch.export` traces the calling code."""
