"""Replacing a name in every module that re-exports it.

torch's packages copy names from each other (`from .memory import *`, `from . import is_initialized`); a
replacement that reached only one of the copies would make `torch.cuda.x` and `torch.cuda.memory.x` disagree.
"""

from __future__ import annotations

import sys
from typing import Any

from samedevice.runtime.patching.patches import Patches

_ABSENT = object()


def rebind(patches: Patches, package: str, name: str, value: Any, *, anywhere: bool = False) -> None:
    """Replace `name` wherever it stands for the very same object.

    That is in `package` and its loaded submodules, or in all modules where `anywhere` is set.
    """
    owner = sys.modules[package]
    original = vars(owner).get(name, _ABSENT)
    patches.attribute(owner, name, value)
    if original is _ABSENT:
        return
    for module in patches.loaded.below("" if anywhere else package + "."):
        if vars(module).get(name, _ABSENT) is original:
            patches.attribute(module, name, value)


def rebind_everywhere(patches: Patches, name: str, value: Any, prefix: str) -> None:
    """Replace `name` in each loaded module that has it and whose path begins with `prefix`."""
    for module in patches.loaded.below(prefix):
        if name in vars(module):
            patches.attribute(module, name, value)
