"""Refuses, or warns of, operators of which CUDA has no deterministic kernel.

It does so once a script asks for deterministic algorithms.
"""

from __future__ import annotations

import warnings

import torch

from samedevice.device_rules import nondeterministic
from samedevice.runtime.state import Call, caller


def check_determinism(call: Call) -> None:
    """Raise or warn as CUDA does when a call has no deterministic kernel and the script asked for one."""
    row = nondeterministic(call.op.short)
    if row is None or not torch.are_deterministic_algorithms_enabled():
        return
    name, complains = row
    if not complains(dict(zip(call.op.argument_names, call.args, strict=False)) | call.kwargs):
        return
    said = (
        f"{name} does not have a deterministic implementation, but you set "
        "'torch.use_deterministic_algorithms(True"
    )
    ask = (
        "file an issue at https://github.com/pytorch/pytorch/issues to help us prioritize adding "
        "deterministic support for this operation."
    )
    if torch.is_deterministic_algorithms_warn_only_enabled():
        frame = caller()
        warnings.warn_explicit(
            f"{said}, warn_only=True)'. You can {ask}", UserWarning, frame.f_code.co_filename, frame.f_lineno
        )
        return
    raise RuntimeError(
        f"{said})'. You can turn off determinism just for this operation, or you can use the "
        f"'warn_only=True' option, if that's acceptable for your application. You can also {ask}"
    )
