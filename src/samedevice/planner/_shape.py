"""What of a model decides its training memory: the shape of each weight, and the dimensions of its layers.

Must guarantee: nothing of a model's folder is executed and no weight is read; module level needs no torch.
Weights come from the headers of safetensors files where there are some, else from the real module, built by
transformers on the meta device. No size is guessed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from samedevice.errors import UsageError
from samedevice.planner._families import Dimensions, dimensions_of
from samedevice.planner._plausible import few_modules, import_model, plausible

if TYPE_CHECKING:
    import torch

_LAYER = re.compile(r"^(.*?\.)?(\d+)\.")
_HEADER_LIMIT = 100 << 20
"""Bytes: what the safetensors format itself allows for a header."""


@dataclass(frozen=True)  # no slots: what is counted once is kept
class Weight:
    """One parameter; tied ones are listed once, under their first name."""

    name: str
    shape: tuple[int, ...]

    @cached_property
    def count(self) -> int:
        """Elements."""
        total = 1
        for size in self.shape:
            total *= size
        return total

    @property
    def module(self) -> str:
        """Last part of the name of the module that owns it: `q_proj`."""
        parts = self.name.split(".")
        return parts[-2] if len(parts) > 1 else ""


@dataclass(frozen=True)  # no slots, as above
class TrainingShape:
    """The weights of a model and the dimensions of its layers.

    `dimensions` is None for an architecture whose activations have no formula here; `measure_step` still can
    measure them.
    """

    name: str
    weights: tuple[Weight, ...]
    dimensions: Dimensions | None = None

    @classmethod
    def from_folder(cls, folder: str | Path) -> TrainingShape:
        """A model folder with `config.json`, with or without weights.

        Raises UsageError for what is no such folder.
        """
        folder = Path(folder)
        config = _read_config(folder / "config.json")
        files = sorted(folder.glob("*.safetensors"))
        if files and "adapter_model.safetensors" not in {file.name for file in files}:
            weights = tuple(weight for file in files for weight in _read_header(file))
            return cls(folder.name, weights, _with_heads_of(dimensions_of(config), weights))
        return cls.from_config(config, name=folder.name)

    @classmethod
    def from_config(cls, config: str | Path | Mapping[str, Any], name: str | None = None) -> TrainingShape:
        """A `config.json`, or what it holds.

        The module is built on the meta device, which needs transformers.

        Raises UsageError for a file that is no configuration and for a model type that the installed
        transformers does not know: code that a configuration brings along (`auto_map`) is never run.
        """
        values = configuration(config)
        if name is None:
            name = (
                str(values.get("model_type", "model"))
                if isinstance(config, Mapping)
                else Path(config).resolve().parent.name
            )
        return cls.from_module(build_on_meta(values), name)

    @classmethod
    def from_module(cls, module: torch.nn.Module, name: str | None = None) -> TrainingShape:
        """A module that is there already, wherever it is; a transformers model brings its own dimensions."""
        config: Any = getattr(module, "config", None)
        values = config.to_dict() if hasattr(config, "to_dict") else None
        return cls(
            name or type(module).__name__,
            _weights_of(module),
            None if values is None else dimensions_of(values),
        )

    @cached_property
    def count(self) -> int:
        """Parameters."""
        return sum(weight.count for weight in self.weights)

    @cached_property
    def blocks(self) -> dict[str, int]:
        """Parameters of each repeated layer, by its prefix (`model.layers.3.`).

        The units that FSDP and ZeRO-3 gather.
        """
        found: dict[str, int] = {}
        for weight in self.weights:
            match = _LAYER.match(weight.name)
            if match is not None:
                found[match.group(0)] = found.get(match.group(0), 0) + weight.count
        return found

    @cached_property
    def outside(self) -> tuple[Weight, ...]:
        """Weights that belong to no repeated layer: embedding, last norm, head."""
        return tuple(weight for weight in self.weights if _LAYER.match(weight.name) is None)

    @property
    def tied(self) -> bool:
        """Whether the head is the embedding."""
        return self.head is None

    @cached_property
    def embedding(self) -> Weight | None:
        """The largest matrix outside the layers."""
        matrices = [weight for weight in self.outside if len(weight.shape) == 2]
        return max(matrices, key=lambda weight: weight.count, default=None)

    @cached_property
    def head(self) -> Weight | None:
        """The output matrix, where it is one of its own."""
        embedding = self.embedding
        for weight in reversed(self.outside):
            if weight is not embedding and embedding is not None and weight.shape == embedding.shape:
                return weight
        return None

    @cached_property
    def matrices(self) -> tuple[Weight, ...]:
        """Two-dimensional weights of the repeated layers: what adapters and 4-bit quantisation work on."""
        return tuple(
            weight
            for weight in self.weights
            if len(weight.shape) == 2 and _LAYER.match(weight.name) is not None
        )

    def named(self, name: str) -> TrainingShape:
        """The same under another name."""
        return replace(self, name=name)


def configuration(source: Mapping[str, Any] | str | Path) -> Mapping[str, Any]:
    """What a `config.json`, a folder with one, or the values themselves hold.

    Raises UsageError for anything else.
    """
    if isinstance(source, Mapping):
        return plausible(source)
    path = Path(source)
    return _read_config(path / "config.json" if path.is_dir() else path)


def parsed_config(values: Mapping[str, Any]) -> Any:
    """A transformers configuration.

    Code that it brings along (`auto_map`) is not run. Raises UsageError for an unknown model type.
    """
    try:
        from transformers import AutoConfig

        kept = {key: value for key, value in values.items() if key not in ("auto_map", "model_type")}
        return AutoConfig.for_model(str(values.get("model_type")), **kept)
    except ImportError as error:
        raise UsageError(
            f"transformers is needed to tell the shapes of a model without weights: {error}"
        ) from None
    except Exception as error:  # every configuration class refuses what it does not like in its own way
        raise UsageError(
            f"transformers cannot read a configuration of type {values.get('model_type')!r}: {error}"
        ) from None


def build_on_meta(values: Mapping[str, Any]) -> torch.nn.Module:
    """The causal language model of a configuration, without memory.

    Raises UsageError where transformers cannot build it.
    """
    config = parsed_config(values)
    import torch
    from transformers import AutoModelForCausalLM

    import_model(config)
    try:
        with torch.device("meta"), few_modules():
            model: torch.nn.Module = AutoModelForCausalLM.from_config(config)  # type: ignore[no-untyped-call] # transformers has no types
    except Exception as error:  # likewise
        raise UsageError(
            f"transformers cannot build a model of type {values.get('model_type')!r}: {error}"
        ) from None
    return model


def _weights_of(module: torch.nn.Module) -> tuple[Weight, ...]:
    return tuple(Weight(name, tuple(parameter.shape)) for name, parameter in module.named_parameters())


def _with_heads_of(dimensions: Dimensions | None, weights: tuple[Weight, ...]) -> Dimensions | None:
    """The width of a head as the weights have it: a configuration may leave it to its class's default."""
    queries = next(
        (weight.shape[0] for weight in weights if weight.module == "q_proj" and len(weight.shape) == 2), None
    )
    if dimensions is None or queries is None:
        return dimensions
    return replace(dimensions, head_dim=queries // dimensions.heads)


def _read_config(path: Path) -> Mapping[str, Any]:
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise UsageError(f"{path} cannot be read as a model's configuration: {error}") from None
    if not isinstance(config, dict):
        raise UsageError(f"{path} holds no JSON object")
    try:
        return plausible(config)
    except UsageError as error:
        raise UsageError(f"{path}: {error}") from None


def _read_header(path: Path) -> Iterable[Weight]:
    """Names and shapes in a safetensors file."""
    try:
        return [Weight(name, tuple(entry["shape"])) for name, entry in safetensors_header(path).items()]
    except (TypeError, KeyError) as error:
        raise UsageError(f"{path} is no safetensors file: {error}") from None


def safetensors_header(path: Path) -> Mapping[str, Any]:
    """What the header of a safetensors file says of each tensor.

    Source: the format's description, https://github.com/huggingface/safetensors. Raises UsageError for
    another file.
    """
    with path.open("rb") as file:
        size = int.from_bytes(file.read(8), "little")
        if size > _HEADER_LIMIT:
            raise UsageError(f"{path} is no safetensors file")
        try:
            header = json.loads(file.read(size))
            return {name: entry for name, entry in header.items() if name != "__metadata__"}
        except (ValueError, AttributeError, RecursionError) as error:
            raise UsageError(f"{path} is no safetensors file: {error}") from None
