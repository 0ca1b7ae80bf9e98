"""The parts of a package: files that are found by being there, names that come in when they are asked for."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib import import_module
from pkgutil import iter_modules
from typing import Any, Protocol, TypeVar


class Coded(Protocol):
    """What has a code and a name of its own: a rule, a check."""

    @property
    def code(self) -> str: ...

    @property
    def name(self) -> str: ...


Part = TypeVar("Part", bound=Coded)


def found_in(package: str, attribute: str) -> list[Any]:
    """What each module of a package calls by this name."""
    path = sys.modules[package].__path__
    return [getattr(import_module(f"{package}.{found.name}"), attribute) for found in iter_modules(path)]


def in_order(parts: Iterable[Part], kind: str = "rules") -> tuple[Part, ...]:
    """Parts by their codes; a code or a name that two of them have is our mistake."""
    found = sorted(parts, key=lambda part: part.code)
    for given in ([part.code for part in found], [part.name for part in found]):
        twice = [each for each, count in Counter(given).items() if count > 1]
        assert not twice, f"two {kind} have {twice[0]}"
    return tuple(found)


def on_demand(
    package: str, homes: Mapping[str, Sequence[str]]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """`__getattr__` and `__dir__` of a package whose modules come in with the first of their names.

    Args:
        package: its name.
        homes: the names that each of its modules gives.
    """
    home_of = {name: home for home, names in homes.items() for name in names}
    namespace = vars(sys.modules[package])

    def find(name: str) -> Any:
        if name not in home_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        namespace[name] = found = getattr(import_module(f"{package}.{home_of[name]}"), name)
        return found

    return find, lambda: sorted({*namespace, *home_of})
