"""Which model is meant: a folder, a `config.json`, or a name on the hub.

Must guarantee: nothing of the model is executed (`auto_map` is never followed), and no weight is read: of
files with weights the headers alone. A name is looked for in the cache of this computer, then among the
configurations that come with samedevice, and only then in the network.
"""

from __future__ import annotations

import json
import math
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit
from urllib.request import getproxies

from samedevice.errors import UsageError
from samedevice.messages import Phrase, Several
from samedevice.planner._plausible import few_modules, import_model
from samedevice.planner._shape import configuration, parsed_config, safetensors_header
from samedevice.planner.inference._published import alike, is_published, published_folder

if TYPE_CHECKING:
    import torch

TYPES = {"float32": "F32", "float16": "F16", "bfloat16": "BF16"}
"""Types that weights can be loaded in, with the name that safetensors has for each."""
_ASSUMED = "bfloat16"
_PARTS_FOR_SOUND = ("audio_config", "audio_encoder_config", "speech_config")
_CODE = ("auto_map", "_name_or_path")


@dataclass(frozen=True, slots=True)
class ModelSource:
    """A model before it is built."""

    name: str
    values: Mapping[str, Any]
    """Its configuration."""
    dtype: str
    """The type that the weights are loaded in."""
    dtype_from: str
    """What says so: `asked`, `config`, `weights`, or `assumed`."""
    path: str
    """As it was named, for a script that loads it."""
    shipped: bool = False
    """Whether the configuration is one of those that come with samedevice."""

    @property
    def decodes_only(self) -> bool:
        """Whether it is no model with an encoder of its own for text."""
        return not self.values.get("is_encoder_decoder", False)

    @property
    def sees(self) -> bool:
        """Whether a part of the model is for pictures."""
        return isinstance(self.values.get("vision_config"), Mapping)

    @property
    def hears(self) -> bool:
        """Whether a part of the model is for sound."""
        return any(isinstance(self.values.get(name), Mapping) for name in _PARTS_FOR_SOUND)

    @property
    def architecture(self) -> str:
        """The class that the configuration names, or the type of the model."""
        names = self.values.get("architectures")
        first = names[0] if isinstance(names, list) and names else None
        return first if isinstance(first, str) else str(self.values.get("model_type"))


Model = str | Path | Mapping[str, Any]
"""A folder, a file, a name on the hub, or the values of a configuration."""


def find_model(model: Model, dtype: str | None = None) -> ModelSource:
    """What `model` names.

    Raises UsageError for what is no model, for weights that are quantized already, and for an unknown type.
    """
    if dtype is not None and dtype not in TYPES:
        raise UsageError(Phrase("place.dtype", given=dtype, known=", ".join(TYPES)))
    if isinstance(model, Mapping):
        named = str(model.get("_name_or_path") or model.get("model_type"))
        return _source(configuration(model), None, named, named, dtype)
    folder, loaded = model_folder(str(model))
    path = Path(model) if Path(model).is_file() else folder
    name = folder.resolve().name if loaded == str(folder) else loaded
    return _source(configuration(path), folder, name, loaded, dtype)


def model_folder(model: str) -> tuple[Path, str]:
    """The folder with the configuration of what `model` names, and how a program names the model.

    Raises UsageError for what is no model.
    """
    given = Path(model)
    if given.exists():
        folder = given if given.is_dir() else given.parent
        return folder, str(folder)
    if (cached := _cached(model)) is not None:
        return cached.parent, model
    return published_folder(model) or (_from_hub(model).parent, model)


def _source(
    values: Mapping[str, Any], folder: Path | None, name: str, path: str, dtype: str | None
) -> ModelSource:
    quantized = values.get("quantization_config")
    if isinstance(quantized, Mapping) and dtype is None:
        method = str(quantized.get("quant_method", "?"))
        raise UsageError(Phrase("place.quantized", model=name, method=method))
    found, said_by = _dtype(values, folder, dtype)
    kept = {key: value for key, value in values.items() if key not in (*_CODE, "quantization_config")}
    shipped = folder is not None and is_published(folder)
    return ModelSource(name, kept, found, said_by, path, shipped)


def build_model(source: ModelSource) -> torch.nn.Module:
    """The model on the meta device, by the class that its configuration names, else as a language model.

    Raises UsageError where transformers cannot build it.
    """
    config = parsed_config(source.values)
    import torch
    import transformers

    family = model_class(source)
    if family is None:
        import_model(config)
    before = torch.get_default_dtype()
    torch.set_default_dtype(getattr(torch, source.dtype))
    try:
        with torch.device("meta"), few_modules():
            model: torch.nn.Module = (
                transformers.AutoModelForCausalLM.from_config(config)  # type: ignore[no-untyped-call] # transformers has no types
                if family is None
                else family._from_config(config)
            )
    except Exception as error:  # every model class refuses what it does not like in its own way
        raise UsageError(
            Phrase("place.unbuildable", architecture=source.architecture, reason=str(error))
        ) from None
    finally:
        torch.set_default_dtype(before)
    return model


def model_class(source: ModelSource) -> Any:
    """The class of transformers that the configuration names; None where it names none."""
    import transformers

    found = getattr(transformers, source.architecture, None)
    return found if isinstance(found, type) and issubclass(found, transformers.PreTrainedModel) else None


def has_tensor_plan(source: ModelSource) -> bool:
    """Whether transformers can divide the model's layers over GPUs (`tp_plan="auto"`)."""
    config = parsed_config(source.values)
    text = getattr(config, "text_config", None)
    return any(getattr(each, "base_model_tp_plan", None) for each in (config, text))


def _dtype(values: Mapping[str, Any], folder: Path | None, asked: str | None) -> tuple[str, str]:
    if asked is not None:
        return asked, "asked"
    for part in (values, values.get("text_config")):
        if isinstance(part, Mapping):
            named = str(part.get("dtype") or part.get("torch_dtype") or "").removeprefix("torch.")
            if named in TYPES:
                return named, "config"
    held: dict[str, int] = {}
    for file in sorted(folder.glob("*.safetensors")) if folder is not None else ():
        for entry in safetensors_header(file).values():
            try:
                held[entry["dtype"]] = held.get(entry["dtype"], 0) + math.prod(entry["shape"])
            except (KeyError, TypeError):
                raise UsageError(Phrase("place.no-header", path=str(file))) from None
    most = max(held, key=lambda name: held[name], default=None)
    for name, short in TYPES.items():
        if short == most:
            return name, "weights"
    return _ASSUMED, "assumed"


def _cached(name: str) -> Path | None:
    """The configuration of a model of the hub in the cache of this computer."""
    if not _hub_name(name):
        return None
    try:
        from huggingface_hub import try_to_load_from_cache

        cached = try_to_load_from_cache(name, "config.json")
    except Exception:  # no huggingface_hub, or a name that it does not allow
        return None
    return Path(cached) if isinstance(cached, str) else None


def _hub_name(name: str) -> bool:
    return name.count("/") == 1 and not name.startswith((".", "/", "~")) and not name.endswith("/")


def _from_hub(name: str) -> Path:
    """The configuration of a model of the hub, from the network."""
    if not _hub_name(name):
        raise UsageError(_with_names(name, Phrase("place.no-model", model=name)))
    try:
        from huggingface_hub import constants, hf_hub_download
    except ImportError:
        raise UsageError(Phrase("place.no-hub", model=name)) from None
    if not (constants.HF_HUB_OFFLINE or reachable(constants.ENDPOINT)):
        host = urlsplit(constants.ENDPOINT).hostname
        raise UsageError(_with_names(name, Phrase("place.no-network", model=name, host=str(host))))
    try:
        return Path(hf_hub_download(name, "config.json"))
    except Exception as error:  # the network, the hub and the name each fail in their own ways
        reason = str(error).strip().partition("\n")[0] or type(error).__name__
        raise UsageError(_with_names(name, Phrase("place.hub", model=name, reason=reason))) from None


def _with_names(name: str, said: Phrase) -> Phrase:
    """What is wrong, with names that may have been meant."""
    meant = alike(name)
    return Phrase("place.meant", said=said, names=Several(tuple(meant))) if meant else said


def reachable(endpoint: str) -> bool:
    """Whether the hub has an address: without one huggingface_hub tries for half a minute.

    Where a proxy asks for names, this computer need not know them.
    """
    parts = urlsplit(endpoint)
    if getproxies().get(parts.scheme):
        return True
    try:
        socket.getaddrinfo(parts.hostname, parts.port or parts.scheme)
    except OSError:
        return False
    return True


def config_text(source: ModelSource) -> str:
    """A `config.json` of the model, with the type that its weights are loaded in."""
    return json.dumps({**source.values, "torch_dtype": source.dtype})
