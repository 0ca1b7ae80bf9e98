"""Copies that live for one operator.

Note [One operator]
A tensor in the wrong place is copied for one operator of torch, and nothing else ever sees the copy: the
operator does not write to it, returns nothing that shares its memory, and what autograd keeps for the
backward pass is the original, copied again when it is needed. So writes, aliases, views, hooks and gradients
are those of the original, whatever the program does. What cannot be shown to hold is refused.

The copy has the sizes and strides of the original, and so have gradients on their way back: the operator and
whatever follows take the paths, and the order of sums, that they take on one device.

Note [Order of gradients]
Autograd adds gradients up in the order in which they come, and of the nodes that are ready the one made last
runs first. A tensor that an operator gets twice has a copy for each, and the copy for the last argument is
made first: their gradients come one by one, that of the first argument before the others, right after the
operator's own node, as they do without copies.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from samedevice.findings import Renderer
from samedevice.guards._align import tensors_of
from samedevice.messages import Phrase

if TYPE_CHECKING:
    import torch

_ALIGNED = 64
"""Bytes at which allocators begin memory."""


def is_plain(tensor: torch.Tensor) -> bool:
    """Whether nothing but torch's C++ part decides what a call of torch does with the tensor."""
    import torch

    return type(tensor) in (torch.Tensor, torch.nn.Parameter)


def can_be_lent(tensor: torch.Tensor) -> bool:
    """Whether all of the tensor's memory is known."""
    try:
        return is_plain(tensor) and not tensor.is_quantized and any(True for _ in memories(tensor))
    except (RuntimeError, NotImplementedError):
        return False


def copied(tensor: torch.Tensor, target: torch.device) -> torch.Tensor:
    """The tensor on another device with its sizes and strides; gradients go back to the original."""
    import torch

    if (torch.is_grad_enabled() and tensor.requires_grad) or torch.autograd.forward_ad._current_level >= 0:
        moved: torch.Tensor = _crossing().apply(tensor, target)
        return moved
    alike = tensor.is_inference() == torch.is_inference_mode_enabled()
    with nullcontext() if alike else torch.inference_mode(tensor.is_inference()), torch.no_grad():
        return _same_layout(tensor, target)


@functools.cache
def _crossing() -> Any:
    import torch

    class Crossing(torch.autograd.Function):
        """From one device to another, forward and backward."""

        @staticmethod
        def forward(tensor: torch.Tensor, target: torch.device) -> torch.Tensor:
            return _same_layout(tensor, target)

        @staticmethod
        def setup_context(context: Any, inputs: tuple[Any, ...], output: Any) -> None:
            context.source, context.target = inputs[0].device, inputs[1]

        @staticmethod
        def backward(context: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, None]:
            return _crossing().apply(gradient, context.source), None

        @staticmethod
        def jvp(context: Any, tangent: torch.Tensor, _: None) -> torch.Tensor:
            moved: torch.Tensor = _crossing().apply(tangent, context.target)
            return moved

    return Crossing


def _same_layout(tensor: torch.Tensor, target: torch.device) -> torch.Tensor:
    import torch

    if tensor.layout != torch.strided:
        return tensor.to(target)
    if tensor.is_conj():
        return _same_layout(tensor.conj(), target).conj()
    if tensor.is_neg():
        return torch._neg_view(_same_layout(torch._neg_view(tensor), target))
    if not tensor.numel():
        return tensor.to(target)
    # Kernels take other paths, and sums other orders, where memory begins beside a boundary of vectors.
    beside = tensor.storage_offset() % max(1, _ALIGNED // tensor.element_size())
    if not beside:
        copy = tensor.to(target)
        if copy.stride() == tensor.stride():
            return copy
        del copy
    extent = 1 + sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
    if _overlaps(tensor):
        memory = tensor.as_strided((beside + extent,), (1,), tensor.storage_offset() - beside).to(target)
    else:
        memory = torch.empty(beside + extent, dtype=tensor.dtype, device=target)
        memory.as_strided(tensor.shape, tensor.stride(), beside).copy_(tensor)
    return memory.as_strided(tensor.shape, tensor.stride(), beside)


def _overlaps(tensor: torch.Tensor) -> bool:
    """Whether two elements may share their memory."""
    reach = 0
    for stride, size in sorted(zip(tensor.stride(), tensor.shape, strict=True)):
        if size > 1:
            if stride <= reach:
                return True
            reach += stride * (size - 1)
    return False


def memories(tensor: torch.Tensor) -> Iterator[int]:
    """Stands for each piece of memory of a tensor; raises RuntimeError where torch does not tell."""
    import torch

    from samedevice.provenance.layouts import PARTS

    if tensor.layout == torch.strided:
        yield tensor.untyped_storage()._cdata
        return
    if tensor.layout not in PARTS:
        raise RuntimeError(f"memory of {tensor.layout}")
    for name in PARTS[tensor.layout]:
        yield from memories(getattr(tensor, name)())


class Reached(Exception):
    """A copy, or its memory, got out of the one operator; nothing has been handed on."""

    def __init__(self, why: Phrase) -> None:
        super().__init__(why)
        self.why = why


@dataclass(slots=True)
class _Original:
    """What autograd keeps in the place of a copy."""

    tensor: torch.Tensor
    version: int | None
    target: torch.device
    layout: Any


@dataclass(slots=True)
class _Own:
    """What autograd keeps of any other tensor."""

    tensor: torch.Tensor
    version: int | None


class Lending:
    """The copies of one call, and what of them may not be seen."""

    def __init__(self, target_of: Callable[[torch.Tensor], torch.device], renderer: Renderer) -> None:
        self._target_of = target_of
        self._renderer = renderer
        self._copies: dict[int, list[tuple[torch.Tensor, int | None]]] = {}
        """The copies that no argument has yet, with their counts of writes, by the original."""
        self._made: list[tuple[torch.Tensor, int | None]] = []
        """All copies."""
        self._lent: dict[int, tuple[torch.Tensor, torch.device]] = {}
        """The original of each copied memory."""

    def copy_all(self, tensors: Sequence[torch.Tensor]) -> None:
        """Copy the tensors of a call, given in their order, that are wanted elsewhere.

        See Note [Order of gradients].
        """
        import torch

        for tensor in reversed(tensors):
            target = self._target_of(tensor)
            follows = torch.is_grad_enabled() and tensor.requires_grad
            if tensor.device == target or (id(tensor) in self._copies and not follows):
                continue
            copy = copied(tensor, target)
            self._made.append((copy, _version(copy)))
            self._copies.setdefault(id(tensor), []).insert(0, self._made[-1])
            self._lent |= dict.fromkeys(memories(copy), (tensor, target))

    def place(self, _: str, __: str, tensor: torch.Tensor) -> torch.Tensor:
        """The tensor, or its next copy where it is wanted elsewhere; as `rebuilt` calls it."""
        copies = self._copies.get(id(tensor))
        if copies is None:
            return tensor
        return (copies.pop(0) if len(copies) > 1 else copies[0])[0]

    def saving(self, tensors: Iterable[torch.Tensor]) -> AbstractContextManager[Any]:
        """Inside it autograd keeps originals in the place of copies."""
        import torch

        if not torch.is_grad_enabled() or not any(tensor.requires_grad for tensor in tensors):
            return nullcontext()
        held, theirs = {id(tensor) for tensor in tensors}, _hooks_of_the_program()

        def pack(tensor: torch.Tensor) -> Any:
            known = next(
                (found for part in memories(tensor) if (found := self._lent.get(part)) is not None), None
            )
            if known is not None:
                original, target = known
                layout: Any = ()
                if tensor.layout == torch.strided:
                    layout = tensor.shape, tensor.stride(), tensor.storage_offset()
                return _Original(original, _version(original), target, layout)
            if theirs is not None:
                return theirs[0](tensor)
            # A result holds the graph that would hold it; a part of it does not, and knows of the same
            # writes.
            return _Own(tensor if tensor.is_leaf or id(tensor) in held else tensor.detach(), _version(tensor))

        def unpack(kept: Any) -> Any:
            if theirs is not None and not isinstance(kept, _Original):
                return theirs[1](kept)
            return self._unpacked(kept)

        return torch.autograd.graph.saved_tensors_hooks(pack, unpack)

    def _unpacked(self, kept: _Original | _Own) -> torch.Tensor:
        import torch

        now = _version(kept.tensor)
        if now != kept.version:
            kind = f"{kept.tensor.type()} {list(kept.tensor.shape)}"
            raise RuntimeError(
                "one of the variables needed for gradient computation has been modified by an inplace "
                f"operation: [{kind}] is at version {now}; expected version {kept.version} instead."
            )
        if isinstance(kept, _Own):
            return kept.tensor
        if (
            torch.is_grad_enabled()
        ):  # the copy would be kept by the graph of the gradients, where nobody watches it
            raise RuntimeError(self._renderer.text(Phrase("heal.graph-of-gradients")))
        copy = copied(kept.tensor, kept.target)
        return copy.as_strided(*kept.layout) if kept.layout else copy

    def check(self, result: Any) -> None:
        """Raises `Reached` when a result shares memory with a copy, or a copy was written to."""
        for copy, version in self._made:
            if _version(copy) != version:
                raise Reached(Phrase("heal.copy-written"))
        for _, _, tensor in tensors_of(result):
            if any(part in self._lent for part in memories(tensor)):
                raise Reached(Phrase("heal.copy-returned"))


def _version(tensor: torch.Tensor) -> int | None:
    return None if tensor.is_inference() else tensor._version


def saving_is_watched() -> bool:
    """Whether the program would see what autograd keeps for a call, and so a call that is refused.

    A checkpoint counts.
    """
    import torch

    return torch.is_grad_enabled() and _hooks_of_the_program() is not None


def _hooks_of_the_program() -> tuple[Callable[..., Any], Callable[..., Any]] | None:
    """The innermost hooks for saved tensors that the program itself has set."""
    from samedevice.torch_versions.adapter import TORCH

    return TORCH.saved_tensor_hooks()
