"""Models of diffusers as targets of a sweep, each by itself, and pipelines as a whole."""

from __future__ import annotations

import hashlib
import importlib
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from samedevice.sweep._case import Case, Listed, Untried
from samedevice.sweep._parts import arguments_of
from samedevice.sweep._pipelines import is_pipeline, pipeline_case
from samedevice.sweep._placing import loaded_case, with_placement
from samedevice.sweep._small import Recipe, below, reason_of, smallest
from samedevice.sweep._tiny import tiny

_CLASS = re.compile(r"^class (\w+)\(([^)]*)\):", re.MULTILINE)
_BASES = {"models": "ModelMixin", "pipelines": "DiffusionPipeline"}
"""What the classes of a folder stand on."""


class DiffusersLibrary:
    """Every public class that stands on `ModelMixin` or `DiffusionPipeline`."""

    def prepare(self) -> None:
        """Import what all models share."""
        for name in ("diffusers", "accelerate", "diffusers.models.modeling_utils", "diffusers.models"):
            importlib.import_module(name)

    def bring(self, name: str) -> None:
        """Import the module of a class."""
        importlib.import_module(name.partition(":")[0])

    def targets(self) -> Iterator[Listed]:
        """Public classes with these bases, as the sources say; nothing is imported."""
        diffusers = importlib.import_module("diffusers")
        root = Path(str(diffusers.__file__)).parent
        public = set(dir(diffusers))
        for folder, base in _BASES.items():
            sources = {path: path.read_text("utf-8") for path in sorted((root / folder).rglob("*.py"))}
            bases = {
                name: re.findall(r"\w+", written)
                for source in sources.values()
                for name, written in _CLASS.findall(source)
            }
            for path, source in sources.items():
                module = ".".join(path.relative_to(root.parent).with_suffix("").parts)
                mark = hashlib.sha256(source.encode()).hexdigest()[:16]
                for name, _ in _CLASS.findall(source):
                    if name in public and name != base and base in below(name, bases):
                        yield Listed(f"{module}:{name}", mark)

    def case(self, name: str, actions: tuple[str, ...]) -> Case:
        """Build it as small as it runs, from the defaults of its constructor. Raises `Untried`."""
        module, _, kind = name.partition(":")
        try:
            found = getattr(importlib.import_module(module), kind)
        except Exception as error:  # anything: it is foreign code
            raise Untried(f"import: {reason_of(error)}") from error
        if is_pipeline(found):
            return pipeline_case(found)
        return _model_case(found)


def _model_case(model_class: Any) -> Case:
    try:
        values = _defaults(model_class)
    except Untried:
        raise
    except Exception as error:  # anything: it is foreign code
        raise Untried(f"configuration: {reason_of(error)}") from error
    recipe = Recipe(
        model_class,
        lambda changed: SimpleNamespace(**changed),
        lambda config: model_class(**vars(config)),
        "inputs-diffusers.toml",
        tiny,
    )
    return loaded_case(model_class, smallest(recipe, values), _spreadable)


def _defaults(model_class: Any) -> dict[str, Any]:
    """What its constructor takes where nobody says; raises `Untried` where somebody must."""
    named = arguments_of(model_class)
    missing = [each.name for each in named if each.default is each.empty]
    if missing:
        raise Untried(f"has no default for {missing[0]}")
    return {each.name: each.default for each in named}


def _grouped(kind: str) -> Callable[[Any], Any]:
    """Groups of weights in host memory, of a block or of single modules."""

    def offload(model: Any) -> Any:
        import torch

        model.enable_group_offload(
            onload_device=torch.device("cuda:0"),
            offload_device=torch.device("cpu"),
            offload_type=kind,
            num_blocks_per_group=1 if kind == "block_level" else None,
        )
        return model

    return offload


def _spreadable(case: Case) -> Case:
    case.offloads = {"block": _grouped("block_level"), "leaf": _grouped("leaf_level")}
    placement = importlib.import_module("accelerate.utils.modeling")
    try:
        blocks = case.model._get_no_split_modules("auto")
    except ValueError:  # the class refuses to be placed, so no user meets a cut of it
        return case
    return with_placement(case, placement, blocks, "_skip_keys")
