"""Copies that modules took of what was replaced, given back.

`from torch.cuda import device_count`, or `staticmethod(torch.cuda.device_count)` in a class, in a module that
was imported while a machine was there: what it holds is the machine's, and would stay so for good.

Must guarantee: only a function of this package that was put in a place is taken for a copy, by its identity,
and it becomes what stood in that place; this package's own modules keep theirs; no object is asked for
anything, not even for its class.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

_FOLDER = f"{Path(__file__).parent.parent.parent}/"
_PACKAGE = "samedevice"


def loaded() -> frozenset[int]:
    """Stands for the modules that are loaded now."""
    return frozenset(map(id, list(sys.modules.values())))


def give_back(originals: Mapping[int, tuple[Any, Any]], before: frozenset[int]) -> None:
    """Put what stood there before in the place of each copy.

    `originals` has the object that was put in place and what it replaced, by the identity of the former.
    Classes are looked at in modules that are not among those of `before`.
    """
    ours = {each: found for each, (value, found) in originals.items() if _is_ours(value)}
    for module in {id(each): each for each in list(sys.modules.values())}.values():
        if not issubclass(type(module), ModuleType) or module.__name__.startswith(_PACKAGE):
            continue
        names = vars(module)
        if not ours.keys().isdisjoint(map(id, list(names.values()))):  # few modules have a copy, of thousands
            for name, value in list(names.items()):
                if id(value) in ours:
                    names[name] = ours[id(value)]
        if id(module) not in before:
            for kind in _classes_of(module):
                _in_class(kind, ours)


def _is_ours(value: Any) -> bool:
    """Whether it is a function that this package wrote: any other may stand where nobody put it."""
    return type(value) is FunctionType and value.__code__.co_filename.startswith(_FOLDER)


def _classes_of(module: ModuleType) -> Iterator[type]:
    name = module.__name__
    for value in list(vars(module).values()):
        if issubclass(type(value), type) and value.__module__ == name:
            yield value


def _in_class(kind: type, ours: Mapping[int, Any]) -> None:
    for name, value in list(vars(kind).items()):
        inner = value.__func__ if isinstance(value, (staticmethod, classmethod)) else value
        if id(inner) in ours:
            found = ours[id(inner)]
            with suppress(AttributeError, TypeError):  # a class that lets nobody change it
                type.__setattr__(kind, name, found if inner is value else type(value)(found))
