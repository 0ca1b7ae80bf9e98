"""Classes of transformers as targets of a sweep, and models of a user's own that are written like them."""

from __future__ import annotations

import hashlib
import importlib
import inspect
import itertools
import re
import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from samedevice.sweep._actions import ACTIONS
from samedevice.sweep._case import Case, Given, Listed, Untried
from samedevice.sweep._inputs import Asked, attempts, labels, with_placeholders
from samedevice.sweep._scripts import changes_of
from samedevice.sweep._shrink import SCALES, Scale, shrunk

_MOST_PARAMETERS = 150_000_000
"""A configuration with more is not built on this computer."""
_LABELS_TRIED = 8
_PATIENCE = 25.0
"""Seconds after which no other size of a model is tried."""
_GPU = "cuda:0"


class TransformersLibrary:
    """Every public class that has a `forward` and a configuration."""

    def __init__(self, package: str = "transformers") -> None:
        self.package = package

    def prepare(self) -> None:
        """Import what all models share."""
        for name in (
            *("transformers", "accelerate", "transformers.modeling_utils", "transformers.generation"),
            *("transformers.integrations.accelerate", "transformers.models.llama.modeling_llama"),
            *("transformers.models.bert.modeling_bert", "transformers.loss.loss_utils"),
        ):
            importlib.import_module(name)

    def targets(self) -> Iterator[Listed]:
        """Public classes that stand on a pre-trained model, as the sources say; nothing is imported."""
        import transformers

        folder = Path(transformers.__file__).parent / "models"
        sources = {path: path.read_text("utf-8") for path in sorted(folder.glob("*/modeling_*.py"))}
        bases = {
            name: re.findall(r"\w+", below)
            for source in sources.values()
            for name, below in _CLASS.findall(source)
        }
        public = set(dir(transformers))
        for path, source in sources.items():
            print_of = hashlib.sha256(source.encode()).hexdigest()[:16]
            module = f"transformers.models.{path.parent.name}.{path.stem}"
            for name, _ in _CLASS.findall(source):
                if name in public and not name.endswith(_BASE) and _stands_on_model(name, bases):
                    yield Listed(f"{module}:{name}", print_of)

    def case(self, name: str, actions: tuple[str, ...]) -> Case:
        """Build it as small as it runs. Raises `Untried` with the first reason that is not about size."""
        module, _, kind = name.partition(":")
        try:
            model_class = getattr(importlib.import_module(module), kind)
            values = model_class.config_class().to_dict()
        except Exception as error:  # anything: it is foreign code
            raise Untried(f"configuration: {reason_of(error)}") from error
        if model_class.forward.__name__ == "_forward_unimplemented":
            raise Untried("has no forward")
        return case_of(model_class, values, self.package)


def case_of(model_class: Any, values: Mapping[str, Any], package: str | None = None) -> Case:
    """A case of a class with the values of a configuration; with `package`, scripts can import it from there.

    Raises `Untried`.
    """
    made = _smallest(model_class, values)
    case = _case(model_class, made)
    if package is not None:
        changes = changes_of(values, made.config.to_dict())
        case.origin = (package, model_class.__name__, model_class.config_class.__name__, changes)
    return case


@dataclass(frozen=True, slots=True)
class _Made:
    """A model in a size in which it ran."""

    model: Any
    config: Any
    scale: Scale
    inputs: Given
    labels: Given


def _smallest(model_class: Any, values: Mapping[str, Any]) -> _Made:
    """The smallest size with all modalities that runs, or else the smallest one with fewer of them.

    Raises `Untried` with the first reason that is not about size.
    """
    built: dict[Scale, tuple[Any, Any]] = {}
    reason, tried = "", ""
    began = time.monotonic()
    for whole, scale in itertools.product((True, False), SCALES):
        if time.monotonic() - began > _PATIENCE:
            break
        if whole:
            try:
                config = model_class.config_class.from_dict(shrunk(values, scale))
                built[scale] = _built(model_class, config), config
            except Exception as error:  # anything: it is foreign code
                reason = reason or f"build: {reason_of(error)}"
        if scale not in built:
            continue
        model, config = built[scale]
        ran = _ran(model_class, model, config, whole=whole)
        if not isinstance(ran, str):
            return _Made(model, config, scale, *ran)
        tried = tried or ran
    raise Untried(f"run: {tried}" if tried else reason)


_BASE = "PreTrainedModel"
_CLASS = re.compile(r"^class (\w+)\(([^)]*)\):", re.MULTILINE)


def _stands_on_model(name: str, bases: Mapping[str, list[str]]) -> bool:
    """Whether one of the classes below it is a base of models."""
    waiting, seen = [name], set[str]()
    while waiting:
        each = waiting.pop()
        if each.endswith(_BASE):
            return True
        if each not in seen:
            seen.add(each)
            waiting += bases.get(each, [])
    return False


def _built(model_class: Any, config: Any) -> Any:
    import torch

    with torch.device("meta"):
        count = sum(each.numel() for each in model_class(config).parameters())
    if count > _MOST_PARAMETERS:
        raise Untried(f"{count:,} parameters in its smallest size")
    torch.manual_seed(0)
    return model_class(config).eval()


def _ran(model_class: Any, model: Any, config: Any, *, whole: bool) -> tuple[Given, Given] | str:
    """Inputs and labels with which it runs on one GPU, or the first reason why none do."""
    asked = _asked(model_class)
    first = ""
    for given in attempts(asked, config, whole=whole):
        try:
            model.to("cpu")
            inputs = with_placeholders(model, config, given)
            model.to(_GPU)
            ACTIONS["loss"](model, _on_gpu(inputs), {})
        except Exception as error:  # anything: it is foreign code
            first = first or reason_of(error)
            continue
        return inputs, _labels(model, asked, config, inputs)
    return first


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


def _asked(model_class: Any) -> Asked:
    main = model_class.main_input_name
    parameters = inspect.signature(inspect.unwrap(model_class.forward)).parameters.values()
    named = [each for each in parameters if each.kind not in (each.VAR_KEYWORD, each.VAR_POSITIONAL)]
    required = tuple(each.name for each in named if each.default is each.empty and each.name != "self")
    names = tuple(each.name for each in named if each.name != "self")
    mains = (main,) if isinstance(main, str) else tuple(main)
    return Asked(tuple(each for each in mains if each in names), required, names)


def _case(model_class: Any, made: _Made) -> Case:
    model, inputs, found, scale = made.model, made.inputs, made.labels, made.scale
    folder = tempfile.mkdtemp(prefix="samedevice-sweep-")
    model.to("cpu")
    try:
        model.save_pretrained(folder)
        model = model_class.from_pretrained(folder).eval()
    except Exception as error:  # a class that does not save: it is spread as it was built
        shutil.rmtree(folder, ignore_errors=True)
        return _spreadable(Case(model, inputs, found, _size(scale), baseline={"load": reason_of(error)}))
    case = _spreadable(Case(model, inputs, found, _size(scale), folder=folder))

    def load(mode: str, max_memory: Mapping[Any, int]) -> Any:
        return model_class.from_pretrained(folder, device_map=mode, max_memory=dict(max_memory)).eval()

    case.load = load
    return case


def _size(scale: Scale) -> str:
    whole = not (scale.layers or scale.vocabulary or scale.pictures)
    return "default" if whole else f"1/{scale.divisor}"


def _spreadable(case: Case) -> Case:
    """With transformers' own placement; before release 5 that was accelerate's."""
    no_split = tuple(getattr(case.model, "_no_split_modules", None) or ())
    case.no_split, case.declares = no_split, bool(no_split)
    own = importlib.import_module("transformers.integrations.accelerate")
    theirs = importlib.import_module("accelerate.utils.modeling")
    placement = own if hasattr(own, "infer_auto_device_map") else theirs

    def infer(model: Any, memory: Mapping[Any, int]) -> dict[str, Any]:
        return dict(
            placement.infer_auto_device_map(
                model, max_memory=dict(memory), no_split_module_classes=list(no_split)
            )
        )

    def sizes(model: Any) -> Mapping[str, int]:
        made = placement.compute_module_sizes(model)
        return dict(made[0] if isinstance(made, tuple) else made)

    def spread(model: Any, device_map: dict[str, Any]) -> Any:
        dispatch = importlib.import_module("accelerate").dispatch_model
        skip = getattr(model, "_skip_keys_device_placement", None)
        _place_single(model, device_map)
        return dispatch(model, device_map=device_map, skip_keys=skip, offload_buffers=False)

    case.infer, case.sizes, case.spread = infer, sizes, spread
    return case


def _place_single(model: Any, device_map: dict[str, Any]) -> None:
    """Parameters with an entry of their own: loading puts them there, and dispatch alone leaves them."""
    single = {**dict(model.named_parameters()), **dict(model.named_buffers())}
    for name, device in device_map.items():
        if name in single and device not in ("cpu", "disk"):
            single[name].data = single[name].data.to(f"cuda:{device}")


def reason_of(error: BaseException) -> str:
    """The first line of an error, with its class."""
    return f"{type(error).__name__}: {str(error).strip().splitlines()[0] if str(error).strip() else ''}"[:300]
