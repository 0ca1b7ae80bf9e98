"""Run real multi-GPU PyTorch programs without a GPU and see every device bug with its cause and its fix.

`import samedevice` imports nothing heavy: torch comes in only when a virtual machine is entered.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from samedevice._api import (
        align,
        check,
        explain,
        guard,
        guard_cache,
        heal,
        machine,
        monitor,
        placement,
        plan,
    )

    __version__: str

__all__ = [
    "__version__",
    "align",
    "check",
    "explain",
    "guard",
    "guard_cache",
    "heal",
    "machine",
    "monitor",
    "placement",
    "plan",
]

_OF_NOTEBOOK = ("load_ipython_extension", "unload_ipython_extension")
"""What IPython asks for at `%load_ext samedevice`."""


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import PackageNotFoundError, version

        try:
            return version("samedevice")
        except PackageNotFoundError:  # a source tree on the path that was never installed
            return "0+unknown"
    if name in __all__:
        from samedevice import _api as home
    elif name in _OF_NOTEBOOK:
        from samedevice.integrations import _notebook as home  # type: ignore[no-redef]
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = found = getattr(home, name)  # the next look costs nothing
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
