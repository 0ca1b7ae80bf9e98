"""Classes of transformers as targets of a sweep, and models of a user's own that are written like them."""

from __future__ import annotations

import hashlib
import importlib
import re
import tempfile
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from samedevice.sweep._case import Case, Listed, Untried
from samedevice.sweep._full import in_full
from samedevice.sweep._placing import loaded_case, with_placement
from samedevice.sweep._scripts import changes_of
from samedevice.sweep._small import Recipe, below, reason_of, smallest


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
        _warm_up()

    def bring(self, name: str) -> None:
        """Import the module of a class: its neighbours, which come next, find it imported."""
        importlib.import_module(name.partition(":")[0])

    def targets(self) -> Iterator[Listed]:
        """Public classes that stand on a pre-trained model, as the sources say; nothing is imported."""
        import transformers

        folder = Path(transformers.__file__).parent / "models"
        sources = {path: path.read_text("utf-8") for path in sorted(folder.glob("*/modeling_*.py"))}
        shared = (folder.parent / "modeling_layers.py").read_text("utf-8")
        bases = {
            name: re.findall(r"\w+", written)
            for source in sources.values()
            for name, written in _CLASS.findall(source)
        }
        runs = {
            name
            for source in (*sources.values(), shared)
            for name, body in _BODY.findall(source)
            if re.search(r"^    def forward\(", body, re.MULTILINE)
        }
        public = set(dir(transformers))
        for path, source in sources.items():
            print_of = hashlib.sha256(source.encode()).hexdigest()[:16]
            module = f"transformers.models.{path.parent.name}.{path.stem}"
            for name, _ in _CLASS.findall(source):
                above = below(name, bases)
                model = any(each.endswith(_BASE) for each in above) and not above.isdisjoint(runs)
                if name in public and not name.endswith(_BASE) and model:
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


def _warm_up() -> None:
    """Save and load a model: the first time, the library reads how every checkpoint is converted."""
    import transformers

    config = transformers.BertConfig(
        vocab_size=8, hidden_size=8, num_hidden_layers=1, num_attention_heads=1, intermediate_size=8
    )
    with tempfile.TemporaryDirectory(prefix="samedevice-sweep-") as folder:
        transformers.BertModel(config).save_pretrained(folder)
        transformers.BertModel.from_pretrained(folder)


def case_of(model_class: Any, values: Mapping[str, Any], package: str | None = None) -> Case:
    """A case of a class with the values of a configuration; with `package`, scripts can import it from there.

    Raises `Untried`.
    """
    recipe = Recipe(model_class, model_class.config_class.from_dict, model_class)
    made = smallest(recipe, values)
    case = loaded_case(model_class, made, _spreadable)
    case.full = partial(in_full, recipe, case)
    if package is not None:
        changes = changes_of(values, made.config.to_dict())
        case.origin = (package, model_class.__name__, model_class.config_class.__name__, changes)
    return case


_BASE = "PreTrainedModel"
_BODY = re.compile(r"^class (\w+)\b[^\n]*\n((?:[ \t#)\n].*\n|\n)*)", re.MULTILINE)
_CLASS = re.compile(r"^class (\w+)\(([^)]*)\):", re.MULTILINE)


def _spreadable(case: Case) -> Case:
    """With transformers' own placement; before release 5 that was accelerate's."""
    no_split = tuple(getattr(case.model, "_no_split_modules", None) or ())
    case.declares = bool(no_split)
    own = importlib.import_module("transformers.integrations.accelerate")
    theirs = importlib.import_module("accelerate.utils.modeling")
    return with_placement(case, own if hasattr(own, "infer_auto_device_map") else theirs, no_split)
