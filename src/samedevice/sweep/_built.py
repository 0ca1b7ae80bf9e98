"""Models that a package makes by their names, such as those of timm and torchvision.

They say nothing of blocks that stay whole, so those are named that a user would name: what stands several
times in a list of layers. They are loaded by accelerate's `load_checkpoint_and_dispatch`.
"""

from __future__ import annotations

import hashlib
import importlib
import inspect
import itertools
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from samedevice.sweep._actions import ACTIONS
from samedevice.sweep._case import Case, Given, Listed, Untried
from samedevice.sweep._packages import BuiltPackage, built_package
from samedevice.sweep._placing import with_placement
from samedevice.sweep._small import reason_of

_PATIENCE = 8.0
"""Seconds in which the smallest model of a file is looked for."""
_MOST_PARAMETERS = 150_000_000
_GPU = "cuda:0"
_BLOCK = 3
"""A block has so many modules with itself, or more."""


class BuiltLibrary:
    """A target for each file of functions that make models; its smallest model is tried."""

    def __init__(self, package: str) -> None:
        self._package = built_package(package)

    def prepare(self) -> None:
        """Import what all models share."""
        for name in (*self._package.imports, "accelerate"):
            importlib.import_module(name)

    def bring(self, name: str) -> None:
        """All is imported."""

    def targets(self) -> Iterator[Listed]:
        """The files, by the modules of the functions."""
        found: dict[str, str] = {}
        for name in _named(self._package.list)():
            function = inspect.unwrap(_named(self._package.maker)(name))
            if function.__module__ not in found:
                source = Path(inspect.getfile(function)).read_bytes()
                found[function.__module__] = hashlib.sha256(source).hexdigest()[:16]
        for module, mark in found.items():
            yield Listed(f"{module}:{module.rpartition('.')[2]}", mark)

    def case(self, name: str, actions: tuple[str, ...]) -> Case:
        """Build the smallest model of a file. Raises `Untried`."""
        import torch

        build = _smallest(self._package, name.partition(":")[0])
        torch.manual_seed(0)
        try:
            model = build().eval()
        except Exception as error:  # anything: it is foreign code
            raise Untried(f"build: {reason_of(error)}") from error
        case = Case(model, _inputs(self._package, model), {}, "default", declares=False)
        model.to("cpu")
        placement = importlib.import_module("accelerate.utils.modeling")
        with_placement(case, placement, blocks_of(model))
        case.load = _loading(case, build)
        return case


def _named(dotted: str) -> Callable[..., Any]:
    module, _, name = dotted.partition(":")
    found: Callable[..., Any] = getattr(importlib.import_module(module), name)
    return found


def _smallest(package: BuiltPackage, module: str) -> Callable[[], Any]:
    """The function that makes the smallest of a file's models; raises `Untried` where none can be made."""
    import torch

    began, reason = time.monotonic(), "makes no model"
    best: tuple[int, Callable[[], Any]] | None = None
    for name in sorted(_named(package.list)(), key=_drawn):
        function = _named(package.maker)(name)
        if inspect.unwrap(function).__module__ != module:
            continue
        build = _with_arguments(function, package.arguments)
        try:
            with torch.device("meta"):
                count = sum(each.numel() for each in build().parameters())
        except Exception as error:  # anything: it is foreign code
            reason = f"build: {reason_of(error)}"
            continue
        if best is None or count < best[0]:
            best = count, build
        if time.monotonic() - began > _PATIENCE:
            break
    if best is None:
        raise Untried(reason)
    if best[0] > _MOST_PARAMETERS:
        raise Untried(f"{best[0]:,} parameters in its smallest size")
    return best[1]


def _drawn(name: str) -> str:
    """A place in an order that has nothing to do with sizes, so that any part of it has all of them."""
    return hashlib.sha256(name.encode()).hexdigest()


def _with_arguments(function: Callable[..., Any], arguments: Mapping[str, Any]) -> Callable[[], Any]:
    parameters = inspect.signature(function).parameters
    given = {name: value for name, value in arguments.items() if name in parameters}
    if not given and any(each.kind is each.VAR_KEYWORD for each in parameters.values()):
        given = dict(list(arguments.items())[:1])
    return lambda: function(**given)


def _inputs(package: BuiltPackage, model: Any) -> Given:
    """What it runs with on one GPU; raises `Untried` with the reason of the last form."""
    import torch

    names = [
        each.name
        for each in inspect.signature(model.forward).parameters.values()
        if each.default is each.empty and each.kind is each.POSITIONAL_OR_KEYWORD
    ]
    forms = [list(form) for form in package.forms]
    if package.size:
        attribute, key = package.size
        own = (getattr(model, attribute, None) or {}).get(key)
        forms += [[2, *own]] if own else []
    reason = "takes nothing"
    model.to(_GPU)
    for form in forms:
        given = {name: torch.randn(form) for name in names}
        try:
            ACTIONS["loss"](model, {name: each.to(_GPU) for name, each in given.items()}, {})
        except Exception as error:  # anything: it is foreign code
            reason = f"run: {reason_of(error)}"
            continue
        return given
    raise Untried(reason)


def blocks_of(model: Any) -> tuple[str, ...]:
    """The classes that stand several times in a list of layers and have none such in them.

    What is a chain of layers itself may be cut anywhere.
    """
    import torch

    lists = (torch.nn.ModuleList, torch.nn.Sequential)
    found: dict[str, Any] = {}
    for module in model.modules():
        if isinstance(module, lists):
            kinds = Counter(type(child).__name__ for child in module.children())
            for child in module.children():
                name = type(child).__name__
                several = len(list(itertools.islice(child.modules(), _BLOCK))) == _BLOCK
                if kinds[name] > 1 and several and not isinstance(child, lists):
                    found.setdefault(name, child)
    return tuple(
        name
        for name, module in found.items()
        if not any(type(part).__name__ in found for part in list(module.modules())[1:])
    )


def _loading(case: Case, build: Callable[[], Any]) -> Callable[[str, Mapping[Any, int]], Any]:
    """The public way: the shape of the model alone, then its weights, placed."""
    import accelerate
    import torch

    case.folder = tempfile.mkdtemp(prefix="samedevice-sweep-")
    file = str(Path(case.folder) / "pytorch_model.bin")
    torch.save(case.model.state_dict(), file)  # weights that have two names are in it under both
    blocks = list(case.no_split)

    def load(mode: str, max_memory: Mapping[Any, int]) -> Any:
        with accelerate.init_empty_weights():
            model = build()
        model = accelerate.load_checkpoint_and_dispatch(
            model.eval(), file, device_map=mode, max_memory=dict(max_memory), no_split_module_classes=blocks
        )
        return model

    return load
