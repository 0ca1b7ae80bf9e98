"""Source read and never run: what a program does with devices, as far as its text and its settings tell.

Each part comes in with the first of its names that is asked for.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from samedevice.static.arguments import given_options
    from samedevice.static.documents import Document, line_of, read_document, read_documents
    from samedevice.static.files import read_text
    from samedevice.static.interpreter import facts_of
    from samedevice.static.origins import shown_origins, written_origins
    from samedevice.static.start import Start
    from samedevice.static.values import (
        SPREADING,
        UNKNOWN,
        UNTOLD,
        External,
        Fact,
        Instance,
        Model,
        Origin,
        Placement,
        Table,
        Text,
    )

__all__ = [
    "SPREADING",
    "UNKNOWN",
    "UNTOLD",
    "Document",
    "External",
    "Fact",
    "Instance",
    "Model",
    "Origin",
    "Placement",
    "Start",
    "Table",
    "Text",
    "facts_of",
    "given_options",
    "line_of",
    "read_document",
    "read_documents",
    "read_text",
    "shown_origins",
    "written_origins",
]

_HOMES = {
    "arguments": ("given_options",),
    "documents": (
        "Document",
        "line_of",
        "read_document",
        "read_documents",
    ),
    "files": ("read_text",),
    "interpreter": ("facts_of",),
    "origins": (
        "shown_origins",
        "written_origins",
    ),
    "start": ("Start",),
    "values": (
        "SPREADING",
        "UNKNOWN",
        "UNTOLD",
        "External",
        "Fact",
        "Instance",
        "Model",
        "Origin",
        "Placement",
        "Table",
        "Text",
    ),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = found = getattr(import_module(f"{__name__}.{_HOME_OF[name]}"), name)
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
