"""Inputs to the devices where the model's entry points want them.

Must guarantee: values, types and structure stay; what already fits is returned as the very same object; the
caller's batch is never changed; meta is refused.
"""

from __future__ import annotations

import copy
import dataclasses
import re
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from samedevice.errors import UsageError
from samedevice.guards._placement import embedding_of, head_of
from samedevice.guards._sharing import Sharing
from samedevice.guards._wrappers import unwrapped
from samedevice.messages import Bytes, Phrase
from samedevice.provenance.dispatch import hook_device

if TYPE_CHECKING:
    import torch

_Batch = TypeVar("_Batch")
_DEPTH = 12

_HOST = re.compile(
    r"^(?:lengths|seq_lengths?|sequence_lengths|batch_sizes|logits_to_keep|num_logits_to_keep|offset_mapping)$"
)
"""Read on the host: `pack_padded_sequence` takes lengths on the CPU only, the others become Python numbers.
"""
_CACHE = re.compile(r"^(?:past_key_values?|layer_past|past|cache|cache_params|kv_cache)$")
"""Each layer's part belongs with that layer: `guard_cache` and `heal` look after them."""
_TOWER = re.compile(
    r"(?:^|\.)(?:visual|vision_tower|vision_model|vision_encoder|image_encoder|vision_embed_tokens)$"
)
_ENTRIES: tuple[tuple[re.Pattern[str], str, re.Pattern[str] | None], ...] = (
    (re.compile(r"(?:image|video)_(?:grid|sizes)"), "grids", _TOWER),
    (re.compile(r"pixel|^images?$|image_mask|flattened_patches"), "vision", _TOWER),
    (re.compile(r"input_features|input_values|feature_attention|audio"), "audio", re.compile(
        r"(?:^|\.)(?:audio_tower|audio_model|audio_encoder|speech_encoder|feature_extractor)$"
    )),
    (re.compile(r"^decoder_(?:input_ids|attention_mask|inputs_embeds|position_ids)$"), "decoder", re.compile(
        r"(?:^|\.)decoder\.(?:embed_tokens|wte)$"
    )),
    (re.compile(r"labels?$|^targets?$"), "logits", None),
)  # fmt: skip
"""Which inputs belong to which entry, and how the module that takes them is named; other inputs go with the
ids.
"""


class AlignError(UsageError):
    """A batch, or a model, that has no values to work with."""


@dataclass(frozen=True, slots=True)
class Move:
    """One tensor that is not where its entry point is."""

    path: str
    source: str
    target: str
    nbytes: int
    entry: str
    """The module that takes it."""


@dataclass(frozen=True, slots=True)
class Alignment:
    """What `sd.check` returns: true when everything fits."""

    model: str
    tensors: int
    moves: tuple[Move, ...]

    def __bool__(self) -> bool:
        return not self.moves

    def phrases(self) -> list[Phrase]:
        """One for each tensor in the wrong place, or one that says that all fit."""
        if not self.moves:
            return [Phrase("align.fits", count=self.tensors, model=self.model)]
        return [
            Phrase(
                "align.wanted",
                path=move.path,
                source=move.source,
                target=move.target,
                reason=move.entry,
            )
            for move in self.moves
        ]

    def as_json(self) -> dict[str, Any]:
        """The alignment as a JSON object."""
        return {
            "schema": 1,
            "model": self.model,
            "tensors": self.tensors,
            "moves": [dataclasses.asdict(move) for move in self.moves],
        }


def check(batch: Any, model: torch.nn.Module) -> Alignment:
    """Which tensors of `batch` are not where `model` wants them; see `samedevice.check`."""
    entries = Entries(model)
    found = [(path, tensor, *entries.wanted(path, name)) for path, name, tensor in tensors_of(batch)]
    moves = tuple(
        _move(path, tensor, target, entry)
        for path, tensor, target, entry in found
        if _misplaced(tensor, target)
    )
    return Alignment(entries.kind, len(found), moves)


def align(
    batch: _Batch,
    model: torch.nn.Module,
    speak: Callable[[Phrase], object],
    warn: Callable[[Phrase], object],
) -> _Batch:
    """`batch` with every tensor where `model` wants it; see `samedevice.align`.

    `speak` is told each move, `warn` what views of one memory are parted.
    """
    entries = Entries(model)
    for path, name, tensor in tensors_of(batch):
        entries.wanted(path, name)  # refuse before anything is moved
        if str(tensor.device) == "meta":
            raise AlignError(Phrase("align.meta", path=path))

    known: dict[tuple[int, str | None], torch.Tensor] = {}
    sharing = Sharing(
        [(path, tensor, entries.wanted(path, name)[0]) for path, name, tensor in tensors_of(batch)]
    )
    for paths in sharing.parted():
        warn(Phrase("align.parted", paths=", ".join(paths)))

    def place(path: str, name: str, tensor: torch.Tensor) -> torch.Tensor:
        target, entry = entries.wanted(path, name)
        if not _misplaced(tensor, target):
            return tensor
        if (id(tensor), target) in known:  # one tensor under two names stays one
            return known[id(tensor), target]
        assert target is not None
        move = _move(path, tensor, target, entry)
        speak(
            Phrase(
                "align.moved",
                path=path,
                source=move.source,
                target=move.target,
                amount=Bytes(move.nbytes),
                reason=entry,
            ),
        )
        known[id(tensor), target] = sharing.moved(tensor, target)
        return known[id(tensor), target]

    aligned: _Batch = rebuilt(batch, place)
    return aligned


class Entries:
    """The entry points of a model and the device of each."""

    def __init__(self, model: torch.nn.Module) -> None:
        self._model = unwrapped(model)
        self.kind = type(self._model).__name__
        self._known: dict[str, tuple[str | None, str]] = {}

    def wanted(self, path: str, name: str) -> tuple[str | None, str]:
        """The device where the tensor called `name` belongs, and the module that takes it.

        None is for anywhere.
        """
        if _HOST.match(name):
            return "cpu", "the host"
        if _CACHE.match(name):
            return None, "the cache"
        entry, modules = next(
            ((entry, modules) for names, entry, modules in _ENTRIES if names.search(name)), ("ids", None)
        )
        if entry not in self._known:
            self._known[entry] = self._find(entry, modules)
        device, module = self._known[entry]
        if device == "meta":
            raise AlignError(Phrase("align.meta-model", reason=module, model=self.kind))
        return device, module

    def _find(self, entry: str, pattern: re.Pattern[str] | None) -> tuple[str | None, str]:
        model = self._model
        module: torch.nn.Module | None = None
        if pattern is not None:
            module = next((each for name, each in model.named_modules() if pattern.search(name)), None)
            if module is None and entry != "decoder":
                module = _encoder(model)
            if entry == "grids" and module is not None and hook_device(module) is not None:
                # positions of the text are computed from them, and the tower's hook brings them there by
                # itself
                module = None
        elif entry == "logits":
            module = head_of(model) or _last_head(model)
        module = module or embedding_of(model) or model
        name = next((name for name, each in model.named_modules() if each is module), "")
        return _device_of(module), name or self.kind


def _encoder(model: torch.nn.Module) -> torch.nn.Module | None:
    """The encoder of an encoder-decoder model."""
    pairs = (each._modules for each in model.modules())
    return next((pair["encoder"] for pair in pairs if {"encoder", "decoder"} <= pair.keys()), None)


def _last_head(model: torch.nn.Module) -> torch.nn.Module | None:
    """The head of a classifier, where it has one of the usual names."""
    names = ("score", "classifier", "qa_outputs", "lm_head")
    return next((child for name in names if (child := model._modules.get(name)) is not None), None)


def _device_of(module: torch.nn.Module) -> str | None:
    """Where a module computes: its hook says so, or else its first parameter or buffer."""
    for each in module.modules():
        hook = hook_device(each)
        if hook is not None:
            return hook
        for tensor in (*each.parameters(recurse=False), *each.buffers(recurse=False)):
            return str(tensor.device)
    return None


def _misplaced(tensor: torch.Tensor, target: str | None) -> bool:
    return target is not None and str(tensor.device) != target


def _move(path: str, tensor: torch.Tensor, target: str | None, entry: str) -> Move:
    if str(tensor.device) == "meta":
        raise AlignError(Phrase("align.meta", path=path))
    return Move(path, str(tensor.device), str(target), tensor.numel() * tensor.element_size(), entry)


# -- structures
# Not `tensors_reached`: a batch is rebuilt from these parts, which leaves plain objects alone.


def tensors_of(
    value: Any, path: str = "", name: str = "", depth: int = _DEPTH
) -> Iterator[tuple[str, str, torch.Tensor]]:
    """(path, innermost key, tensor) of every tensor in a structure."""
    import torch

    if isinstance(value, torch.Tensor):
        yield path or "batch", name, value
    elif depth:
        for key, part in _children(value):
            inner = key if isinstance(key, str) else name
            yield from tensors_of(part, _join(path, key), inner, depth - 1)


def rebuilt(
    value: Any,
    place: Callable[[str, str, torch.Tensor], torch.Tensor],
    path: str = "",
    name: str = "",
    depth: int = _DEPTH,
) -> Any:
    """The structure with each tensor replaced; parts in which nothing changed are the same objects."""
    import torch

    if isinstance(value, torch.Tensor):
        return place(path or "batch", name, value)
    if not depth:
        return value
    changed = {}
    for key, part in _children(value):
        inner = key if isinstance(key, str) else name
        new = rebuilt(part, place, _join(path, key), inner, depth - 1)
        if new is not part:
            changed[key] = new
    return with_parts(value, changed) if changed else value


def _children(value: Any) -> list[tuple[Any, Any]]:
    import torch

    if isinstance(value, Mapping):
        return list(value.items())
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return list(zip(value._fields, value, strict=True))
    if isinstance(value, (list, tuple, deque)):
        return list(enumerate(value))
    if dataclasses.is_dataclass(value) and not isinstance(value, (type, torch.nn.Module)):
        return [
            (each.name, getattr(value, each.name))
            for each in dataclasses.fields(value)
            if hasattr(value, each.name)
        ]
    return []


def _join(path: str, key: Any) -> str:
    if isinstance(key, int):
        return f"{path}[{key}]"
    return f"{path}.{key}" if path else str(key)


def with_parts(value: Any, changed: dict[Any, Any]) -> Any:
    """A copy with some parts replaced."""
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        named: Any = value
        return named._replace(
            **{named._fields[key] if isinstance(key, int) else key: part for key, part in changed.items()}
        )
    if isinstance(value, tuple):
        parts = [changed.get(index, part) for index, part in enumerate(value)]
        return type(value)(parts)
    if isinstance(value, Mapping) and not hasattr(value, "__setitem__"):
        return type(value)({**value, **changed})  # type: ignore[call-arg]
        # what read-only mappings are made of
    new = copy.copy(value)
    if isinstance(value, (Mapping, list, deque)):
        inner = getattr(new, "data", None)
        if inner is not None and inner is getattr(value, "data", None):
            new.data = copy.copy(inner)  # a shallow copy of a UserDict may share its dictionary
        for key, part in changed.items():
            new[key] = part
        return new
    for key, part in changed.items():
        object.__setattr__(new, key, part)
    return new
