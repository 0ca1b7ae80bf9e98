"""Guards for the loops of other libraries and for notebooks.

Each library is imported only by whoever asks for its part.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from samedevice.integrations._accelerate import guard_accelerator
    from samedevice.integrations._notebook import guard_notebook
    from samedevice.integrations._trainer import GuardCallback

__all__ = ["GuardCallback", "guard_accelerator", "guard_notebook"]


def __getattr__(name: str) -> Any:
    if name == "GuardCallback":
        from samedevice.integrations._trainer import GuardCallback as found
    elif name == "guard_accelerator":
        from samedevice.integrations._accelerate import guard_accelerator as found  # type: ignore[assignment]
    elif name == "guard_notebook":
        from samedevice.integrations._notebook import guard_notebook as found  # type: ignore[assignment]
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
