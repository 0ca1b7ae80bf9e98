"""The smallest model that runs: a size after the other, with inputs that its arguments name.

Must guarantee: nothing hangs on the name of a library; what a library does its own way is a `Recipe`.
"""

from __future__ import annotations

import contextlib
import inspect
import itertools
import re
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from samedevice.sweep._actions import ACTIONS
from samedevice.sweep._case import Given, Untried
from samedevice.sweep._inputs import INPUTS, Asked, attempts, labels, with_placeholders
from samedevice.sweep._shrink import SCALES, Scale, shrunk
from samedevice.sweep._weights import large_undrawn

_MOST_PARAMETERS = 150_000_000
"""A configuration with more is not built on this computer."""
_LABELS_TRIED = 8
_PATIENCE = 8.0
"""Seconds of the processor after which no other size of a model is tried."""
_GPU = "cuda:0"
_TINY = Scale(0)
"""The size that a recipe has itself."""


@dataclass(frozen=True, slots=True)
class Recipe:
    """How a library makes a model of a class."""

    model_class: Any
    configure: Callable[[dict[str, Any]], Any]
    """A configuration with these values."""
    build: Callable[[Any], Any]
    """A model with a configuration."""
    table: str = INPUTS
    """The inputs of its library."""
    tiny: Callable[[Mapping[str, Any]], dict[str, Any]] | None = None
    """A size that is tried before all others."""


@dataclass(frozen=True, slots=True)
class Made:
    """A model in a size in which it runs."""

    model: Any
    """Fresh: nothing of the runs that chose its size stays in it."""
    config: Any
    scale: Scale
    inputs: Given
    labels: Given


def smallest(recipe: Recipe, values: Mapping[str, Any]) -> Made:
    """The smallest size with all modalities that runs, or else the smallest one with fewer of them.

    Raises `Untried` with the first reason that is not about size.
    """
    built: dict[Scale, tuple[Any, Any]] = {}
    hopeless: set[tuple[bool, int]] = set()
    reason, tried = "", ""
    alike = {True: _Alike(), False: _Alike()}
    began = time.process_time()
    scales = SCALES if recipe.tiny is None else (_TINY, *SCALES)
    for whole, scale in itertools.product((True, False), scales):
        if time.process_time() - began > _PATIENCE:
            break
        if alike[whole].again(scale):
            continue
        if whole:
            try:
                config = recipe.configure(_in_size(recipe, values, scale))
                if scale.divisor == 1:
                    _refuse_large(recipe, config)
                built[scale] = _built(recipe, config), config
            except Exception as error:  # anything: it is foreign code
                reason = reason or f"build: {reason_of(error)}"
                if isinstance(error, ImportError):  # a package is missing, in whatever size
                    break
                alike[whole].failed(scale, f"build: {reason_of(error)}")
        if scale not in built:
            continue
        model, config = built[scale]
        ran = _ran(recipe, model, config, hopeless, whole=whole)
        if not isinstance(ran, str):
            del built[scale], model
            return Made(_built(recipe, config), config, scale, *ran)
        tried = tried or ran
        alike[whole].failed(scale, ran)
    raise Untried(f"run: {tried}" if tried else reason)


class _Alike:
    """Reasons that sizes have nothing to do with: without a number, and the same in every size so far."""

    def __init__(self) -> None:
        self._first: tuple[Scale, str] | None = None
        self._divisors: set[int] = set()
        """Divisors of widths with which the first reason came again."""

    def failed(self, scale: Scale, reason: str) -> None:
        """A size did not build or run."""
        if self._first is None:
            self._first = scale, reason
        elif reason != self._first[1] or _NUMBER.search(reason):
            self._first, self._divisors = (scale, ""), set()  # sizes matter: all are tried
        elif scale != self._first[0]:
            self._divisors.add(scale.divisor)

    def again(self, scale: Scale) -> bool:
        """Whether a size like it failed for that reason, and this one would, too."""
        return scale.divisor in self._divisors


_NUMBER = re.compile(r"\d")


def _in_size(recipe: Recipe, values: Mapping[str, Any], scale: Scale) -> dict[str, Any]:
    return shrunk(values, scale) if recipe.tiny is None or scale != _TINY else recipe.tiny(values)


def _built(recipe: Recipe, config: Any) -> Any:
    import torch

    torch.manual_seed(0)
    with at_most(_MOST_PARAMETERS), large_undrawn():
        return recipe.build(config).eval()


def _refuse_large(recipe: Recipe, config: Any) -> None:
    """Raises `Untried` for too many parameters before any is given its values."""
    import torch

    try:
        with torch.device("meta"), at_most(_MOST_PARAMETERS):
            recipe.build(config)
    except Untried:
        raise
    except Exception:  # foreign code that wants values; building it tells
        return


@contextlib.contextmanager
def at_most(parameters: int) -> Iterator[None]:
    """Raises `Untried` as soon as a module gets one parameter more, before that is given its values."""
    from torch.nn.modules.module import register_module_parameter_registration_hook

    seen: set[int] = set()
    left = parameters

    def count(module: Any, name: str, parameter: Any) -> None:
        nonlocal left
        if parameter is not None and id(parameter) not in seen:
            seen.add(id(parameter))
            left -= parameter.numel()
        if left < 0:
            raise Untried(f"more than {parameters:,} parameters")

    handle = register_module_parameter_registration_hook(count)
    try:
        yield
    finally:
        handle.remove()


def _ran(
    recipe: Recipe, model: Any, config: Any, hopeless: set[tuple[bool, int]], *, whole: bool
) -> tuple[Given, Given] | str:
    """Inputs and labels with which it runs on one GPU, or the first reason why none do.

    Attempts that cannot run in any size become `hopeless`, and are not made again.
    """
    asked = _asked(recipe)
    first, there = "", False

    def to_host() -> None:
        nonlocal there
        model.to("cpu")
        there = False

    for number, given in enumerate(attempts(asked, config, whole=whole)):
        if (whole, number) in hopeless:
            continue
        if missing := [name for name in asked.required if name not in given]:
            return f"nothing is known to give for {', '.join(missing)}"
        try:
            inputs = with_placeholders(model, config, given, to_host)
            if not there:
                model.to(_GPU)
                there = True
            ACTIONS["loss"](model, _on_gpu(inputs), {})
        except Exception as error:  # anything: it is foreign code
            first = first or reason_of(error)
            if _HOPELESS.search(str(error)):
                hopeless.add((whole, number))
            continue
        return inputs, _labels(model, asked, config, inputs)
    return first or "no inputs"


_HOPELESS = re.compile(
    r"values to unpack|Expected \dD|positional argument|unexpected keyword|have to specify|must specify"
)
"""What is said of inputs with too many or too few dimensions, or too few inputs: no size of a model helps."""


def given_like(
    recipe: Recipe, model: Any, config: Any, inputs: Given, loss: Given
) -> Iterator[tuple[Given, Given]]:
    """Inputs and labels for a model in another size, with the names of those that a small one ran with."""
    asked = _asked(recipe)
    for whole in (True, False):
        for given in attempts(asked, config, whole=whole):
            try:
                made = with_placeholders(model, config, given)
            except Exception:  # foreign code that cannot stand these inputs
                continue
            if made.keys() != inputs.keys():
                continue
            if not loss:
                yield made, {}
            for each in labels(asked, config, made) if loss else ():
                if each.keys() == loss.keys():
                    yield made, each


def _labels(model: Any, asked: Asked, config: Any, inputs: Given) -> Given:
    for number, given in enumerate(labels(asked, config, inputs)):
        if number >= _LABELS_TRIED:
            break
        try:
            made = ACTIONS["loss"](model, _on_gpu(inputs), _on_gpu(given))
        except Exception:  # these labels are not its own
            continue
        if getattr(made, "loss", None) is not None:
            return given
    return {}


def _on_gpu(given: Given) -> Given:
    return {name: each.to(_GPU) if hasattr(each, "to") else each for name, each in given.items()}


def _asked(recipe: Recipe) -> Asked:
    model_class = recipe.model_class
    main = getattr(model_class, "main_input_name", ())
    parameters = inspect.signature(inspect.unwrap(model_class.forward)).parameters.values()
    named = [each for each in parameters if each.kind not in (each.VAR_KEYWORD, each.VAR_POSITIONAL)]
    required = tuple(each.name for each in named if each.default is each.empty and each.name != "self")
    names = tuple(each.name for each in named if each.name != "self")
    mains = (main,) if isinstance(main, str) else tuple(main)
    return Asked(tuple(each for each in mains if each in names), required, names, recipe.table)


def size_of(scale: Scale) -> str:
    if scale == _TINY:
        return "tiny"
    whole = not (scale.layers or scale.vocabulary or scale.pictures)
    return "default" if whole else f"1/{scale.divisor}"


def reason_of(error: BaseException) -> str:
    """The first line of an error, with its class."""
    return f"{type(error).__name__}: {str(error).strip().splitlines()[0] if str(error).strip() else ''}"[:300]


def below(name: str, bases: Mapping[str, list[str]]) -> set[str]:
    """The class, and all that it stands on."""
    waiting, seen = [name], set[str]()
    while waiting:
        each = waiting.pop()
        if each not in seen:
            seen.add(each)
            waiting += bases.get(each, [])
    return seen
