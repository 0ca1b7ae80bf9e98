"""Layers and measures, each called alone on one GPU: those of torch_geometric and torchmetrics.

They are too small to be split; what they make on the CPU, or leave there, is found on a single GPU. A class
is made from values by the names of what its constructor wants, and called with what its `forward` or
`update` takes, both rows of `layers.toml`; it has to run on the CPU first.
"""

from __future__ import annotations

import copy
import hashlib
import importlib
import inspect
import itertools
import pkgutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from samedevice.sweep._case import Case, Given, Listed, Untried
from samedevice.sweep._inputs import Sizes, make
from samedevice.sweep._small import reason_of
from samedevice.sweep._tables import read_table

TABLE = "layers.toml"
_TRIED = 24
"""So many combinations of values and inputs are tried for one class."""


@dataclass(frozen=True, slots=True)
class LayerPackage:
    """Where the classes of a package are, and how they are made and called."""

    name: str
    modules: Sequence[str]
    """Packages whose modules are searched."""
    base: str
    """`module:class` on which all of them stand."""
    called: str
    """The method whose arguments say what a call is given."""
    values: Sequence[Mapping[str, Any]]
    """For constructors: the first that has everything that is wanted and works."""
    inputs: Sequence[Mapping[str, Any]]
    """For calls: forms by the names of arguments, or by their places as `1`, `2`, ..."""


@cache
def _rows() -> Mapping[str, LayerPackage]:
    return {row["name"]: LayerPackage(**row) for row in read_table(TABLE)["package"]}


def layer_packages() -> tuple[str, ...]:
    """Their names."""
    return tuple(_rows())


class LayersLibrary:
    """A target for each public class of the package that stands on its base."""

    def __init__(self, package: str) -> None:
        self._package = _rows()[package]

    def prepare(self) -> None:
        """Import the package."""
        importlib.import_module(self._package.name)
        self._base()

    def bring(self, name: str) -> None:
        """Import the module of a class."""
        importlib.import_module(name.partition(":")[0])

    def targets(self) -> Iterator[Listed]:
        """The classes of all modules that can be imported."""
        base = self._base()
        for module in _modules(self._package.modules):
            for name, found in sorted(vars(module).items()):
                own = isinstance(found, type) and found.__module__ == module.__name__
                if (
                    own
                    and issubclass(found, base)
                    and not (name.startswith("_") or inspect.isabstract(found))
                ):
                    source = Path(inspect.getfile(found)).read_bytes()
                    yield Listed(f"{module.__name__}:{name}", hashlib.sha256(source).hexdigest()[:16])

    def case(self, name: str, actions: tuple[str, ...]) -> Case:
        """Make one that ran on the CPU. Raises `Untried` with the first reason."""
        module, _, kind = name.partition(":")
        made_of = getattr(importlib.import_module(module), kind)
        reason = "nothing is known to make or to call it with"
        tried = itertools.product(_fitting(made_of, self._package.values), self._package.inputs)
        for values, forms in itertools.islice(tried, _TRIED):
            try:
                model = made_of(**values)
                inputs = _inputs(getattr(model, self._package.called), forms)
                ran = copy.deepcopy(model)
                ran(**inputs)
            except Exception as error:  # anything: it is foreign code
                reason = reason_of(error)
                continue
            return Case(model.eval(), inputs, {}, "default", declares=False)
        raise Untried(f"run: {reason}")

    def _base(self) -> Any:
        module, _, kind = self._package.base.partition(":")
        return getattr(importlib.import_module(module), kind)


def _modules(packages: Sequence[str]) -> Iterator[Any]:
    for package in packages:
        found = importlib.import_module(package)
        yield found
        for each in pkgutil.walk_packages(found.__path__, f"{package}."):
            try:
                yield importlib.import_module(each.name)
            except Exception:  # it wants a package that is not there
                continue


def _fitting(made_of: Any, rows: Sequence[Mapping[str, Any]]) -> Iterator[Given]:
    """Of each row what the constructor takes; those that lack something it wants are left out."""
    parameters = inspect.signature(made_of).parameters
    wanted = {
        name
        for name, each in parameters.items()
        if each.default is each.empty and each.kind not in (each.VAR_KEYWORD, each.VAR_POSITIONAL)
    }
    seen: list[Given] = []
    for row in rows:
        values = {name: _value(row[name]) for name in parameters if name in row and name in wanted | _ALWAYS}
        if wanted <= values.keys() and values not in seen:
            seen.append(values)
            yield values


_ALWAYS = {"num_classes", "num_labels", "task"}
"""Given also where they have a default."""


def _value(value: Any) -> Any:
    """A module where the table says one: `module:class` with the numbers it is made of."""
    if isinstance(value, Mapping):
        module, _, kind = value["make"].partition(":")
        return getattr(importlib.import_module(module), kind)(*value.get("of", ()))
    return value


def _inputs(method: Any, forms: Mapping[str, Any]) -> Given:
    """What a call takes, by the names of its arguments, or in their order."""
    parameters = [
        each
        for each in inspect.signature(method).parameters.values()
        if each.kind is each.POSITIONAL_OR_KEYWORD
    ]
    sizes = Sizes(SimpleNamespace(), "", TABLE)
    given: Given = {}
    for place, each in enumerate(parameters, 1):
        form = forms.get(each.name, forms.get(str(place)) if each.default is each.empty else None)
        if form is not None:
            given[each.name] = make(form, sizes)
        elif each.default is each.empty:
            raise Untried(f"nothing is known to give for {each.name}")
    return given
