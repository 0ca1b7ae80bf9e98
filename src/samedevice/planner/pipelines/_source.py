"""Which pipeline is meant: a folder with a `model_index.json`, or a name on the hub.

Must guarantee: no weight is read, and no code of the pipeline's repository is run. A name is looked for in
the cache of this computer, then among the configurations that come with samedevice; nothing is fetched.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from samedevice.errors import UsageError
from samedevice.messages import Phrase
from samedevice.planner.inference import TYPES

INDEX = "model_index.json"
CONFIG = "config.json"
LIBRARIES = ("diffusers", "transformers")
"""Whose components can be planned."""
_SHIPPED = Path(__file__).with_name("published")
_ASSUMED = "bfloat16"


@dataclass(frozen=True, slots=True)
class PipelineSource:
    """A pipeline before it is built."""

    name: str
    folder: Path
    path: str
    """As it was named, for a script that loads it."""
    kind: str
    """Class of the pipeline."""
    components: Mapping[str, tuple[str, str]]
    """Library and class of each part that has one, in the order of the file."""
    dtype: str
    dtype_from: str
    """`asked` or `assumed`."""
    shipped: bool = False
    """Whether the configurations are among those that come with samedevice."""

    @property
    def models(self) -> dict[str, tuple[str, str]]:
        """The components with a `config.json` of their own: those with weights."""
        return {
            name: said for name, said in self.components.items() if (self.folder / name / CONFIG).is_file()
        }


def is_pipeline(model: str) -> bool:
    """Whether this is known here as a pipeline: by a folder, the cache of the hub, or what is shipped."""
    return _folder(model) is not None


def find_pipeline(model: str, dtype: str | None = None) -> PipelineSource:
    """What `model` names.

    Raises UsageError for what is no pipeline, for an unknown type, and for components of other libraries.
    """
    if dtype is not None and dtype not in TYPES:
        raise UsageError(Phrase("place.dtype", given=dtype, known=", ".join(TYPES)))
    found = _folder(model)
    if found is None:
        raise UsageError(Phrase("place.no-model", model=model))
    folder, path = found
    values = _values(folder / INDEX)
    components = {
        name: (str(said[0]), str(said[1]))
        for name, said in values.items()
        if isinstance(said, list) and len(said) == 2 and said[0] is not None
    }
    for name, (library, kind) in components.items():
        if not (config := folder / name / CONFIG).is_file():
            continue
        if library not in LIBRARIES:
            raise UsageError(Phrase("pipeline.other-component", name=name, kind=f"{library}.{kind}"))
        _check(config)
    name = folder.resolve().name if path == str(folder) else path
    return PipelineSource(
        name,
        folder,
        path,
        str(values.get("_class_name")),
        components,
        dtype or _ASSUMED,
        "assumed" if dtype is None else "asked",
        _SHIPPED in folder.parents,
    )


def _values(file: Path) -> dict[str, Any]:
    try:
        values = json.loads(file.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise UsageError(Phrase("pipeline.no-index", path=str(file), reason=str(error))) from None
    if not isinstance(values, dict) or not isinstance(values.get("_class_name"), str):
        raise UsageError(Phrase("pipeline.no-index", path=str(file), reason="_class_name"))
    return values


def _check(config: Path) -> None:
    """Raises UsageError for what is no configuration of a component."""
    try:
        values = json.loads(config.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise UsageError(Phrase("pipeline.bad-config", path=str(config), reason=str(error))) from None
    if not isinstance(values, dict):
        raise UsageError(Phrase("pipeline.bad-config", path=str(config), reason=type(values).__name__))


def _folder(model: str) -> tuple[Path, str] | None:
    """The folder with the configurations, and how a program names the pipeline."""
    given = Path(model)
    if given.exists():
        folder = given if given.is_dir() else given.parent
        is_index = given.is_dir() or given.name == INDEX
        return (folder, str(folder)) if is_index and (folder / INDEX).is_file() else None
    cached = _cached(model)
    if cached is not None:
        return cached, model
    shipped = _shipped().get(model.lower())
    return None if shipped is None else (_SHIPPED / shipped, shipped)


def _cached(name: str) -> Path | None:
    """The pipeline's folder in the cache of this computer."""
    if name.count("/") != 1 or name.startswith((".", "/", "~")) or name.endswith("/"):
        return None
    try:
        from huggingface_hub import try_to_load_from_cache

        cached = try_to_load_from_cache(name, INDEX)
    except Exception:  # no huggingface_hub, or a name that it does not allow
        return None
    return Path(cached).parent if isinstance(cached, str) else None


def shipped_pipelines() -> tuple[str, ...]:
    """Names of the pipelines whose configurations come with samedevice."""
    return tuple(dict.fromkeys(_shipped().values()))


@cache
def _shipped() -> dict[str, str]:
    """Names in small letters, with and without owner."""
    names = tomllib.loads((_SHIPPED / "index.toml").read_text("utf-8"))
    return {each.lower(): name for name in names for each in (name, name.partition("/")[2])}
