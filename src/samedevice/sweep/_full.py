"""Models of transformers in released sizes, loaded without weights.

A small model has other proportions than its checkpoint, so a cut that it meets is not always one that a
checkpoint meets. The sizes are the published configurations that come with samedevice, and the default one of
the class's configuration, which in transformers is that of the first checkpoint.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from samedevice.planner.inference import published
from samedevice.sweep._case import Case, Full, Given
from samedevice.sweep._small import Recipe, given_like

MACHINES = ("2x24GB", "2xA100-80G", "4xA100-80G", "8xA100-80G")
"""Where they are tried, from the smallest."""


def in_full(recipe: Recipe, case: Case) -> Iterator[Full]:
    """The sizes of a class; the default one last."""
    kind = recipe.model_class.config_class
    given = partial(_given, recipe, case.inputs, case.labels)
    for name, folder in published():
        if json.loads((folder / "config.json").read_text("utf-8")).get("model_type") == kind.model_type:
            yield Full(name, partial(_loaded, recipe.model_class, folder), given)
    folder = Path(tempfile.mkdtemp(prefix="samedevice-sweep-"))
    kind().save_pretrained(folder)
    yield Full(f"{kind.__name__}()", partial(_loaded, recipe.model_class, folder), given)


def _loaded(model_class: Any, folder: Path) -> Any:
    return model_class.from_pretrained(folder, device_map="auto").eval()


def _given(recipe: Recipe, inputs: Given, loss: Given, model: Any) -> Iterator[tuple[Given, Given]]:
    """In the type of the weights, which in released sizes is a small one."""
    for each in given_like(recipe, model, model.config, inputs, loss):
        made, labels = ({name: _in_type(value, model.dtype) for name, value in part.items()} for part in each)
        yield made, labels


def _in_type(value: Any, dtype: Any) -> Any:
    return value.to(dtype) if getattr(value, "is_floating_point", bool)() else value
