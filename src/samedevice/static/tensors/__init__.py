"""The device of every tensor expression of a source, without running it.

Each part comes in with the first of its names that is asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from samedevice.parts import on_demand

if TYPE_CHECKING:
    from samedevice.static.tensors.abstract import (
        CURRENT,
        HOST,
        OTHER,
        Device,
        Library,
        Local,
        Module,
        Object,
        Plain,
        Tensor,
        Where,
    )
    from samedevice.static.tensors.knowledge import FUNCTIONS, MAKERS, METHODS, MODULES, OPTIMIZERS
    from samedevice.static.tensors.project import Project, parse_source
    from samedevice.static.tensors.reading import Entered, Meeting, Reading, Told, makes_something, picks
    from samedevice.static.tensors.signs import absent_parameters, device_parameters, tensor_parameters
    from samedevice.static.tensors.source import (
        Around,
        Attribute,
        Call,
        ClassText,
        Function,
        SourceText,
        called,
        kept_names,
        making_functions,
        nodes,
    )

__all__ = [
    "CURRENT",
    "FUNCTIONS",
    "HOST",
    "MAKERS",
    "METHODS",
    "MODULES",
    "OPTIMIZERS",
    "OTHER",
    "Around",
    "Attribute",
    "Call",
    "ClassText",
    "Device",
    "Entered",
    "Function",
    "Library",
    "Local",
    "Meeting",
    "Module",
    "Object",
    "Plain",
    "Project",
    "Reading",
    "SourceText",
    "Tensor",
    "Told",
    "Where",
    "absent_parameters",
    "called",
    "device_parameters",
    "kept_names",
    "makes_something",
    "making_functions",
    "nodes",
    "parse_source",
    "picks",
    "tensor_parameters",
]

__getattr__, __dir__ = on_demand(
    __name__,
    {
        "abstract": (
            "CURRENT",
            "HOST",
            "OTHER",
            "Device",
            "Library",
            "Local",
            "Module",
            "Object",
            "Plain",
            "Tensor",
            "Where",
        ),
        "knowledge": ("FUNCTIONS", "MAKERS", "METHODS", "MODULES", "OPTIMIZERS"),
        "project": ("Project", "parse_source"),
        "reading": ("Entered", "Meeting", "Reading", "Told", "makes_something", "picks"),
        "signs": ("absent_parameters", "device_parameters", "tensor_parameters"),
        "source": (
            "Around",
            "Attribute",
            "Call",
            "ClassText",
            "Function",
            "SourceText",
            "called",
            "kept_names",
            "making_functions",
            "nodes",
        ),
    },
)
