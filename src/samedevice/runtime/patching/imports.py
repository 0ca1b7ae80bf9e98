"""Patches for packages that a script may import later."""

from __future__ import annotations

from samedevice.imports import Hook, Watch
from samedevice.runtime.patching.patches import Patches


def when_imported(patches: Patches, hooks: dict[str, Hook]) -> None:
    """Run each hook on its module: at once when it is loaded, else right after its import."""
    watch = Watch(hooks)
    patches.call(watch.start, watch.stop, "sys.meta_path")
