"""Source read and never run: what a program does with devices, as far as its text and its settings tell.

Each part comes in with the first of its names that is asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from samedevice.parts import on_demand

if TYPE_CHECKING:
    from samedevice.static.arguments import given_options
    from samedevice.static.documents import Document, line_of, read_document, read_documents
    from samedevice.static.files import expanded, read_text
    from samedevice.static.interpreter import facts_of
    from samedevice.static.origins import Printed, written_origins
    from samedevice.static.sources import Sources
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
    "Printed",
    "Sources",
    "Start",
    "Table",
    "Text",
    "expanded",
    "facts_of",
    "given_options",
    "line_of",
    "read_document",
    "read_documents",
    "read_text",
    "written_origins",
]

__getattr__, __dir__ = on_demand(
    __name__,
    {
        "arguments": ("given_options",),
        "documents": (
            "Document",
            "line_of",
            "read_document",
            "read_documents",
        ),
        "files": ("expanded", "read_text"),
        "interpreter": ("facts_of",),
        "origins": ("written_origins",),
        "sources": ("Sources",),
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
    },
)
