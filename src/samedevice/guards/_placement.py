"""Where a model's tensors are, as data, and what of it will not work.

Must guarantee: the model is looked at and never run or changed; the same on a real GPU, on a virtual one and
without any.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from samedevice.guards._wrappers import unwrapped
from samedevice.messages import Bytes, Phrase
from samedevice.provenance.dispatch import device_map_of, hook_device, hooks_of, mapped, offloads

if TYPE_CHECKING:
    import torch

OFFLOADED = "offloaded"
_NAMED = 4
"""Names that a warning lists before it counts the rest."""


@dataclass(frozen=True, slots=True)
class Part:
    """A module whose tensors are all in one place, or several like it side by side."""

    module: str
    """Qualified name; `layers.0-13` for several; ends with `(own)` for what a split module owns directly."""
    kind: str
    device: str
    """`cuda:0`, `cpu`, `meta`, or `offloaded` for weights that a hook brings in."""
    nbytes: int
    tensors: int
    hook: str | None
    """Where accelerate's hook sends the inputs; None without one."""
    count: int = 1


_SAID = {
    "split-block": "placement.split-block",
    "tied-apart": "placement.tied-apart",
    "meta-left": "placement.meta-left",
    "no-hooks": "placement.no-hooks",
    "inputs-not-moved": "placement.inputs-not-moved",
    "own-without-hook": "placement.own-without-hook",
}


@dataclass(frozen=True, slots=True)
class Warned:
    """Something about the placement that will fail, or that surprises."""

    name: str
    """Stable: `split-block`, `tied-apart`, `meta-left`, `no-hooks`, `inputs-not-moved`, `own-without-hook`.
    """
    modules: tuple[str, ...]
    values: tuple[tuple[str, str], ...] = ()

    @property
    def phrase(self) -> Phrase:
        """What is to be said."""
        shown = ", ".join(self.modules[:_NAMED]) + (
            f", +{len(self.modules) - _NAMED}" if len(self.modules) > _NAMED else ""
        )
        return Phrase(_SAID[self.name], modules=shown, **dict(self.values))


@dataclass(frozen=True, slots=True)
class Placement:
    """Where everything of a model is."""

    model: str
    parts: tuple[Part, ...]
    devices: Mapping[str, int]
    """Bytes on each device; tied tensors once."""
    tied: tuple[tuple[str, ...], ...]
    """Names of the same memory."""
    hooks: int
    device_map: Mapping[str, str]
    warnings: tuple[Warned, ...]

    def phrases(self) -> list[Phrase]:
        """One for each device: its bytes and what it holds."""
        return [
            Phrase(
                "placement.line",
                model=self.model,
                device=device,
                amount=Bytes(nbytes),
                modules=", ".join(part.module for part in self.parts if part.device == device),
            )
            for device, nbytes in self.devices.items()
        ]


def placement(model: torch.nn.Module) -> Placement:
    """Where everything of `model` is; see `samedevice.placement`."""
    model = unwrapped(model)
    return Placement(
        model=type(model).__name__,
        parts=tuple(_merged(list(_parts(model, "", inherited=False)))),
        devices=_bytes_by_device(model),
        tied=tuple(tuple(names) for names in _groups(model).values() if len(names) > 1),
        hooks=sum(1 for module in model.modules() for _ in _aligning(module)),
        device_map=device_map_of(model),
        warnings=tuple(_warnings(model)),
    )


def place_of(module: torch.nn.Module, tensor: torch.Tensor, *, inherited: bool = False) -> str:
    """The device of a tensor that `module` owns, or `offloaded` for one that a hook brings in."""
    device = str(tensor.device)
    return OFFLOADED if device == "meta" and (inherited or offloads(module)) else device


def _aligning(module: torch.nn.Module) -> Iterator[str]:
    device = hook_device(module)
    if device is not None:
        yield device


def _own(module: torch.nn.Module) -> Iterator[tuple[str, torch.Tensor]]:
    yield from module.named_parameters(recurse=False, remove_duplicate=False)
    yield from module.named_buffers(recurse=False, remove_duplicate=False)


def _all(module: torch.nn.Module, prefix: str, inherited: bool) -> Iterator[tuple[str, torch.Tensor, str]]:
    """(qualified name, tensor, place) of everything at and below a module.

    A hook may bring in what is below it.
    """
    bringing = inherited or _places_below(module)
    for name, tensor in _own(module):
        yield f"{prefix}{name}", tensor, place_of(module, tensor, inherited=bringing)
    for name, child in module.named_children():
        yield from _all(child, f"{prefix}{name}.", bringing)


def _places_below(module: torch.nn.Module) -> bool:
    return any(
        getattr(hook, "offload", False) and getattr(hook, "place_submodules", False)
        for hook in hooks_of(module)
    )


def _key(tensor: torch.Tensor) -> tuple[Any, ...]:
    """The same for tensors that are the same memory; tensors without memory are themselves."""
    from samedevice.provenance import surroundings

    identity = 0 if str(tensor.device) == "meta" else surroundings.identity(tensor)
    return (identity, tensor.storage_offset(), tuple(tensor.shape)) if identity else (id(tensor),)


def _size(tensor: torch.Tensor) -> int:
    return tensor.numel() * tensor.element_size()


def _bytes_by_device(model: torch.nn.Module) -> dict[str, int]:
    found: dict[str, int] = {}
    seen: set[tuple[Any, ...]] = set()
    for _, tensor, place in _all(model, "", inherited=False):
        if (key := _key(tensor)) not in seen:
            seen.add(key)
            found[place] = found.get(place, 0) + _size(tensor)
    return dict(sorted(found.items(), key=lambda pair: _order(pair[0])))


def _order(device: str) -> tuple[bool, str, int]:
    """GPUs by their number, then the rest."""
    kind, _, index = device.partition(":")
    return (not index, kind, int(index) if index.isdigit() else 0)


def _groups(model: torch.nn.Module) -> dict[tuple[Any, ...], list[str]]:
    groups: dict[tuple[Any, ...], list[str]] = {}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        groups.setdefault(_key(parameter), []).append(name)
    return groups


def _parts(module: torch.nn.Module, name: str, inherited: bool) -> Iterator[Part]:
    everything = list(_all(module, "", inherited))
    places = list(dict.fromkeys(place for _, _, place in everything))
    kind, hook = type(module).__name__, hook_device(module)
    if len(places) <= 1:
        if everything:
            yield Part(
                name or "(all)",
                kind,
                places[0],
                sum(_size(tensor) for _, tensor, _ in everything),
                len(everything),
                hook,
            )
        return
    bringing = inherited or _places_below(module)
    own: dict[str, list[torch.Tensor]] = {}
    for _, tensor in _own(module):
        own.setdefault(place_of(module, tensor, inherited=bringing), []).append(tensor)
    for place, tensors in own.items():
        yield Part(f"{name} (own)".strip(), kind, place, sum(map(_size, tensors)), len(tensors), hook)
    for child, below in module.named_children():
        yield from _parts(below, f"{name}.{child}" if name else child, bringing)


def _merged(parts: list[Part]) -> Iterator[Part]:
    """Numbered neighbours that are alike, as one."""
    held: Part | None = None
    first = last = 0
    for part in parts:
        stem, _, number = part.module.rpartition(".")
        if held is not None and number.isdecimal() and int(number) == last + 1 and _alike(held, part, stem):
            last += 1
            held = Part(
                f"{stem}.{first}-{last}",
                part.kind,
                part.device,
                held.nbytes + part.nbytes,
                held.tensors + part.tensors,
                part.hook,
                held.count + 1,
            )
            continue
        if held is not None:
            yield held
        held = part
        first = last = int(number) if number.isdecimal() else 0
    if held is not None:
        yield held


def _alike(held: Part, part: Part, stem: str) -> bool:
    return held.module.rpartition(".")[0] == stem and (held.kind, held.device, held.hook) == (
        part.kind,
        part.device,
        part.hook,
    )


# -- warnings


def _warnings(model: torch.nn.Module) -> Iterator[Warned]:
    everything = list(_all(model, "", inherited=False))
    devices = sorted({place for _, _, place in everything} - {OFFLOADED, "meta"}, key=_order)
    hooks = sum(1 for module in model.modules() for _ in _aligning(module))
    yield from _split_blocks(model)
    yield from _tied_apart(model)
    if left := tuple(name for name, _, place in everything if place == "meta"):
        yield Warned("meta-left", left)
    if len(devices) > 1 and not hooks:
        yield Warned("no-hooks", (type(model).__name__,), (("devices", ", ".join(devices)),))
    moved_by_map = bool(device_map_of(model)) or devices != ["cuda:0"]
    if len(devices) == 1 and devices != ["cpu"] and not hooks and moved_by_map:
        yield Warned("inputs-not-moved", (type(model).__name__,), (("device", devices[0]),))
    if hooks:
        bare = tuple(
            name or type(model).__name__
            for name, module in model.named_modules()
            if _own_without_hook(module, name, model)
        )
        if bare:
            yield Warned("own-without-hook", bare)


def _split_blocks(model: torch.nn.Module) -> Iterator[Warned]:
    import torch

    whole = set(getattr(model, "_no_split_modules", None) or ())
    for name, module in model.named_modules():
        parent = model.get_submodule(name.rpartition(".")[0]) if "." in name else model
        if type(module).__name__ not in whole and (whole or not isinstance(parent, torch.nn.ModuleList)):
            continue
        places = sorted(
            {place for _, _, place in _all(module, "", inherited=False)} - {OFFLOADED, "meta"}, key=_order
        )
        if len(places) > 1:
            yield Warned("split-block", (name,), (("devices", ", ".join(places)),))


def _tied_apart(model: torch.nn.Module) -> Iterator[Warned]:
    placed = device_map_of(model)
    for names in _groups(model).values():
        wanted = dict.fromkeys(device for name in names if (device := mapped(placed, name)) is not None)
        if len(names) > 1 and len(wanted) > 1:
            yield Warned("tied-apart", tuple(names), (("devices", ", ".join(wanted)),))
    ends = [weight for weight in map(_weight, (embedding_of(model), head_of(model))) if weight is not None]
    if (
        getattr(getattr(model, "config", None), "tie_word_embeddings", False)
        and len(ends) == 2
        and _key(ends[0]) != _key(ends[1])
    ):
        devices = [str(end.device) for end in ends]
        if devices[0] != devices[1]:
            apart = tuple(
                name
                for end in ends
                for name, own in model.named_parameters(remove_duplicate=False)
                if own is end
            )
            yield Warned("tied-apart", apart, (("devices", ", ".join(devices)),))


def _own_without_hook(module: torch.nn.Module, name: str, model: torch.nn.Module) -> bool:
    """A parent that was placed by its children: nobody sends its inputs to its own parameters."""
    own = [tensor for _, tensor in module.named_parameters(recurse=False)]
    if not own or hook_device(module) is not None or next(module.children(), None) is None:
        return False
    path = name
    while path:
        path = path.rpartition(".")[0]
        if hook_device(model.get_submodule(path)) == str(own[0].device):
            return False  # a hook above sends everything to the same device
    return True


def embedding_of(model: torch.nn.Module) -> torch.nn.Module | None:
    """The module that takes the ids, if the model tells."""
    return _asked(model, "get_input_embeddings")


def head_of(model: torch.nn.Module) -> torch.nn.Module | None:
    """The module that makes the logits, if the model tells."""
    return _asked(model, "get_output_embeddings")


def _asked(model: torch.nn.Module, question: str) -> torch.nn.Module | None:
    import torch

    try:
        answer = getattr(model, question)()
    except (AttributeError, NotImplementedError, TypeError, KeyError):
        return None
    return answer if isinstance(answer, torch.nn.Module) else None


def _weight(module: torch.nn.Module | None) -> torch.Tensor | None:
    import torch

    weight = getattr(module, "weight", None)
    return weight if isinstance(weight, torch.Tensor) else None
