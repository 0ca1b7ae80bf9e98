"""The kinds of rows for what a machine replaces, and how a table of them is put in place.

Must guarantee: no target stands in two rows, unless the later one names the row that it goes over; what a
supported version of torch must have and the installed one lacks is told with the target's name.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterable, MutableMapping
from dataclasses import dataclass
from types import FunctionType, ModuleType
from typing import Any

from samedevice.runtime.patching.imports import when_imported
from samedevice.runtime.patching.patches import Patches
from samedevice.runtime.patching.rebinding import rebind, rebind_everywhere

_MISSING = object()
SOME = "not in every torch"
"""`since` of what some supported releases have, where nobody looked up which."""


@dataclass(frozen=True, slots=True)
class Constant:
    """Makes a replacement that is the same in every machine."""

    value: Any

    def __call__(self, original: Any) -> Any:
        """The value, whatever was there."""
        return self.value


@dataclass(frozen=True, slots=True)
class With:
    """Makes a replacement that needs something of the machine that is entered.

    It is asked for when the table is installed, also by a row that waits for an import: another machine may
    be entered by then.
    """

    ask: Callable[[], Any]
    make: Callable[[Any, Any], Any]
    """Gives the replacement for the original and what `ask` gave."""

    def __call__(self, original: Any) -> Any:
        """What is made with what there is now."""
        return self.make(original, self.ask())

    def asked(self) -> Callable[[Any], Any]:
        """The maker that knows already."""
        given = self.ask()
        return lambda original: self.make(original, given)


@dataclass(frozen=True, slots=True)
class Patch:
    """One attribute that is replaced.

    Raises AttributeError when it is put in place and its owner is not there.
    """

    target: str
    """Dotted path, as a script would write it."""
    make: Callable[[Any], Any]
    """Gives the replacement for the original (None where there is none), in the machine that is entered."""
    why: str
    """What would go wrong without it, in one sentence."""
    since: str = ""
    """The first release that has the target, such as `torch 2.9`; older ones go without. Empty: all that are
    supported, and a target that is not there is added.
    """
    package: str = ""
    """The module to wait for where a script may import it later."""
    owner: Callable[[], Any] | None = None
    """Finds the owner where the path does not lead to it."""
    copies: str = ""
    """A package whose modules hold the same object under the same name: all of them get the replacement.
    `*` stands for every module.
    """
    every: str = ""
    """The beginning of the names of modules: each that has the name gets the replacement."""
    over: str = ""
    """The file of the row for the same target that this one wraps."""
    when: Callable[[], bool] | None = None
    """Whether the machine that is entered needs it."""
    added: bool = False
    """Whether the target need not be there: it is added then."""

    @property
    def by(self) -> str:
        """What replaces it, for people."""
        return _by(self.make)

    def lacks_target(self) -> bool:
        """Whether a replacement that builds on the original has none to build on.

        A constant needs none, and what waits for an import or a machine is not asked.
        """
        if self.since or self.package or self.when is not None:
            return False
        path, _, name = self.target.rpartition(".")
        owner = self.owner() if self.owner is not None else found(path)
        return owner is None or not (isinstance(self.make, Constant) or self.added or hasattr(owner, name))

    def install(self, patches: Patches) -> None:
        """Put the replacement in place, now or after the import that it waits for."""
        if self.when is not None and not self.when():
            return
        make = self.make.asked() if isinstance(self.make, With) else self.make
        if self.package:
            when_imported(patches, {self.package: lambda module: self._replace(patches, make)})
        else:
            self._replace(patches, make)

    def _replace(self, patches: Patches, make: Callable[[Any], Any]) -> None:
        path, _, name = self.target.rpartition(".")
        owner = self.owner() if self.owner is not None else found(path)
        original = getattr(owner, name, _MISSING)
        if owner is None or (original is _MISSING and self.since):
            if self.since:
                return
            raise AttributeError(f"samedevice replaces {self.target}, and this version has no {path}")
        value = make(None if original is _MISSING else original)
        if self.copies:
            anywhere = self.copies == "*"
            rebind(patches, path if anywhere else self.copies, name, value, anywhere=anywhere)
        elif self.every:
            rebind_everywhere(patches, name, value, self.every)
        else:
            patches.attribute(owner, name, value)


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry of a mapping that is replaced."""

    target: str
    """The mapping and the key, as a script would write them."""
    mapping: Callable[[], MutableMapping[Any, Any]]
    key: Any
    make: Callable[[Any], Any]
    why: str
    since: str = ""
    over: str = ""

    @property
    def by(self) -> str:
        """What replaces it, for people."""
        return _by(self.make)

    def install(self, patches: Patches) -> None:
        """Replace the entry."""
        mapping = self.mapping()
        patches.item(mapping, self.key, self.make(mapping.get(self.key)))


@dataclass(frozen=True, slots=True)
class Change:
    """A change that is no attribute and has an opposite: a registration, a global hook."""

    target: str
    """What it touches."""
    enter: Callable[[], object]
    leave: Callable[[], object]
    """Takes back what `enter` did."""
    by: str
    """What is there meanwhile."""
    why: str
    since: str = ""
    over: str = ""
    when: Callable[[], bool] | None = None
    """Whether it can be made, where not every Python or torch has what it touches."""

    def install(self, patches: Patches) -> None:
        """Make the change."""
        if self.when is None or self.when():
            patches.call(self.enter, self.leave, self.target)


Row = Patch | Entry | Change


class PatchTable:
    """All rows, in the order in which they are put in place.

    Raises ValueError for a target that stands twice.
    """

    def __init__(self, rows: Iterable[Row]) -> None:
        self.rows = tuple(rows)
        seen: set[str] = set()
        for row in self.rows:
            if row.target in seen and not row.over:
                raise ValueError(f"{row.target} is replaced twice, and the later row goes over no other")
            if row.over and row.target not in seen:
                raise ValueError(f"the row for {row.target} goes over another, and there is none before it")
            seen.add(row.target)

    def install(self, patches: Patches, leave_out: Iterable[Row] = ()) -> None:
        """Put everything in place, but for the rows that are left out."""
        left_out = {row.target for row in leave_out}
        for row in self.rows:
            if row.target not in left_out:
                row.install(patches)
        patches.loaded.forget()

    def without_target(self) -> tuple[Row, ...]:
        """The rows that replace what the installed torch has not: their features are off."""
        return tuple(row for row in self.rows if isinstance(row, Patch) and row.lacks_target())


def found(path: str) -> Any:
    """What a dotted path leads to; None where a part of it is not there."""
    module: ModuleType | None = None
    rest: list[str] = []
    name = path
    while module is None:
        module = sys.modules.get(name)
        if module is None:
            name, _, last = name.rpartition(".")
            rest.insert(0, last)
            if not name:
                return None
    value: Any = module
    for part in rest:
        value = getattr(value, part, None)
    return value


def _by(make: Callable[[Any], Any]) -> str:
    made: Any = make.value if isinstance(make, Constant) else make.make if isinstance(make, With) else make
    if isinstance(made, (staticmethod, classmethod)):
        made = made.__func__
    if isinstance(made, property):
        made = made.fget if isinstance(made.fget, FunctionType) else made.fset
    if isinstance(made, functools.partial):
        made = made.func
    if not isinstance(made, (FunctionType, type)):
        plain = made is None or isinstance(made, (bool, int, str))
        return f"`{made!r}`" if plain else f"an object of `{type(made).__name__}`"
    name = made.__qualname__.replace("<locals>.", "").removesuffix(".<lambda>")
    return "a function of one line" if name == "<lambda>" else f"`{name}`"
