"""A folder of a user's own checkpoints, with model code of their own or of transformers.

Every folder below it that has a `config.json` is a target. Its model code is run, as `trust_remote_code=True`
runs it; weights are not read.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from samedevice.sweep._case import Case, Listed, Untried
from samedevice.sweep._small import reason_of
from samedevice.sweep._transformers import TransformersLibrary, case_of

_CONFIG = "config.json"


class FolderLibrary(TransformersLibrary):
    """The models of a folder."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self._folder = folder

    def bring(self, name: str) -> None:
        """Code of a folder is imported by its own process alone."""

    def targets(self) -> Iterator[Listed]:
        """A target for each configuration that names its class; code beside it belongs to its print."""
        for file in sorted(self._folder.rglob(_CONFIG)):
            try:
                named = json.loads(file.read_text("utf-8")).get("architectures") or ()
            except (OSError, ValueError, AttributeError):
                continue
            mark = hashlib.sha256(b"".join(each.read_bytes() for each in [file, *_code(file.parent)]))
            for kind in named:
                if isinstance(kind, str):
                    yield Listed(f"{file.parent.relative_to(self._folder)}:{kind}", mark.hexdigest()[:16])

    def case(self, name: str, actions: tuple[str, ...]) -> Case:
        """Build it as small as it runs. Raises `Untried`."""
        below, _, kind = name.rpartition(":")
        folder = self._folder / below
        try:
            model_class, values = _loaded(folder, kind)
        except Exception as error:  # anything: it is foreign code
            raise Untried(f"configuration: {reason_of(error)}") from error
        return case_of(model_class, values)


def _code(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.py"))


def _loaded(folder: Path, kind: str) -> tuple[Any, dict[str, Any]]:
    """The class and the values of its configuration."""
    import transformers
    from transformers.dynamic_module_utils import get_class_from_dynamic_module

    config = transformers.AutoConfig.from_pretrained(folder, trust_remote_code=True)
    own = [each for each in (getattr(config, "auto_map", None) or {}).values() if isinstance(each, str)]
    reference = next((each for each in own if each.rpartition(".")[2] == kind), None)
    if reference is not None:
        model_class: Any = get_class_from_dynamic_module(reference, folder)
        model_class.config_class = type(config)
    else:
        model_class = getattr(transformers, kind)
    return model_class, config.to_dict()
