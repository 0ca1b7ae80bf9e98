"""Copies that live for one operator.

Note [One operator]
A tensor in the wrong place is copied for one operator of torch, and nothing else ever sees the copy: the
operator does not write to it, returns nothing that shares its memory, and what autograd keeps for the
backward pass is the original, copied again when it is needed. So writes, aliases, views, hooks and gradients
are those of the original, whatever the program does. What cannot be shown to hold is refused.

The copy has the sizes and strides of the original, and so have gradients on their way back: the operator and
whatever follows take the paths, and the order of sums, that they take on one device.

Note [Order of gradients]
Autograd adds gradients up in the order in which they come: the nodes that are ready run from the one made
last to the one made first, and each hands on its gradients in the order of its arguments. An operator may be
several nodes (one for each tensor of a list, or what a composite operator is made of), and each hands its own
piece of a gradient to what it was given. The node of a copy comes between. So it runs as soon as it has all
pieces, before any other node that is ready, and hands them on one by one in the order in which they came:
sums are rounded as they are without copies. What no longer has its order is only which of two leaves of one
operator is told first of its gradient, which torch leaves open. All of this holds in one queue; see Note [One
queue].
"""

from __future__ import annotations

import functools
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

from samedevice.findings import Renderer
from samedevice.guards._align import tensors_of
from samedevice.guards._queue import OneQueue
from samedevice.messages import Phrase
from samedevice.provenance import FrameFilter

if TYPE_CHECKING:
    import torch

_ALIGNED = 64
"""Bytes at which allocators begin memory."""
_FIRST = 2**64 - 1
"""The sequence number of nodes that run as soon as they are ready; autograd's own for leaves."""
_PIECES = 8
"""Uses of one tensor by a composite operator, of which each makes a piece of its gradient."""


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


def copied(tensor: torch.Tensor, target: torch.device, pieces: int = 1) -> torch.Tensor:
    """The tensor on another device with its sizes and strides; gradients go back to the original.

    They may come in so many pieces; see Note [Order of gradients].
    """
    import torch

    if (torch.is_grad_enabled() and tensor.requires_grad) or torch.autograd.forward_ad._current_level >= 0:
        return _crossed(tensor, target, pieces)
    alike = tensor.is_inference() == torch.is_inference_mode_enabled()
    with nullcontext() if alike else torch.inference_mode(tensor.is_inference()), torch.no_grad():
        return _same_layout(tensor, target)


def _crossed(tensor: torch.Tensor, target: torch.device, pieces: int = 1) -> torch.Tensor:
    moved: torch.Tensor = _crossing().apply(target, *[tensor] * pieces)
    node: Any = moved.grad_fn
    if node is not None:
        node._set_sequence_nr(_FIRST)
        node.queue = OneQueue()
    return moved


@functools.cache
def _crossing() -> Any:
    import torch

    class Crossing(torch.autograd.Function):
        """From one device to another, forward and backward.

        It takes its tensor once for each piece of the gradient that may come.
        """

        @staticmethod
        def forward(target: torch.device, tensor: torch.Tensor, *_: torch.Tensor) -> torch.Tensor:
            return _same_layout(tensor, target)

        @staticmethod
        def setup_context(context: Any, inputs: tuple[Any, ...], output: Any) -> None:
            context.target, context.source = inputs[0], inputs[1].device
            context.uses = len(inputs) - 1
            context.pieces = {}
            context.set_materialize_grads(False)

        @staticmethod
        def backward(context: Any, gradient: torch.Tensor | None) -> tuple[torch.Tensor | None, ...]:
            pieces = context.pieces.pop(torch._C._current_graph_task_id(), [gradient])
            moved = [None if piece is None else _crossed(piece, context.source) for piece in pieces]
            return (None, *moved, *[None] * (context.uses - len(moved)))

        @staticmethod
        def jvp(context: Any, _: None, tangent: torch.Tensor, *__: torch.Tensor) -> torch.Tensor:
            return _crossed(tangent, context.target)

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


def _same_view(original: torch.Tensor, copy: torch.Tensor, view: torch.Tensor) -> torch.Tensor:
    """The view of the original that corresponds to a view of its copy."""
    import torch

    if copy.layout != torch.strided:
        if view.layout == copy.layout:
            return original
        raise Reached(Phrase("heal.kind"))
    if _geometry(view) == _geometry(copy):
        return original
    with torch.no_grad():
        of_original, of_copy = _as_stored(original), _as_stored(copy)
        if view.dtype != original.dtype:
            if not original.is_complex() or view.is_complex():
                raise Reached(Phrase("heal.kind"))
            of_original, of_copy = torch.view_as_real(of_original), torch.view_as_real(of_copy)
        beside = of_original.storage_offset() - of_copy.storage_offset()
        made = of_original.as_strided(view.shape, view.stride(), view.storage_offset() + beside)
        made = torch._neg_view(made) if view.is_neg() else made
        return made.conj() if view.is_conj() else made


def _geometry(tensor: torch.Tensor) -> tuple[Any, ...]:
    """What tells views of the same memory apart."""
    bits = tensor.dtype, tensor.is_conj(), tensor.is_neg()
    return tensor.shape, tensor.stride(), tensor.storage_offset(), *bits


def _as_stored(tensor: torch.Tensor) -> torch.Tensor:
    """The numbers that are in memory, without what is computed when they are read."""
    import torch

    stored = tensor.conj() if tensor.is_conj() else tensor
    return torch._neg_view(stored) if stored.is_neg() else stored


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
    """What autograd keeps in the place of a copy, or of a view of one."""

    tensor: torch.Tensor
    identity: int
    """Of the object in C++: `torch.utils.swap_tensors` gives a tensor of Python another one."""
    version: int | None
    target: torch.device


@dataclass(slots=True)
class _Packed:
    """What hooks of the program made of an original, in the place of a copy."""

    value: Any
    target: torch.device


@dataclass(slots=True)
class _Own:
    """What autograd keeps of any other tensor."""

    tensor: torch.Tensor
    identity: int
    version: int | None


class Lending:
    """The copies of one call, and what of them may not be seen."""

    def __init__(self, target_of: Callable[[torch.Tensor], torch.device], renderer: Renderer) -> None:
        self._target_of = target_of
        self._renderer = renderer
        self._copies: dict[int, tuple[torch.Tensor, int | None]] = {}
        """The copies and their counts of writes, by the original."""
        self._lent: dict[int, tuple[torch.Tensor, torch.Tensor, torch.device]] = {}
        """The original and its copy, by the copy's memory."""
        self._start = 0
        """The sequence number of the first node of the call."""

    def ask_autocast(self, tensors: Iterable[torch.Tensor]) -> None:
        """Raises `Reached` where autocast would do with a copy what it does not do with the original.

        It casts on the devices for which it is on, and casts a leaf once for all operators, whose gradients
        it adds up in the lower precision.
        """
        import torch

        moved = [tensor for tensor in tensors if tensor.device != self._target_of(tensor)]
        for tensor in moved:
            home, target = (_autocast(each.type) for each in (tensor.device, self._target_of(tensor)))
            on_host = home != target and self._target_of(tensor).type == "cpu"
            kept = target is not None and tensor.is_leaf and tensor.requires_grad
            if on_host or (kept and torch.is_autocast_cache_enabled()):
                raise Reached(Phrase("heal.autocast"))

    def copy_all(self, tensors: Sequence[torch.Tensor], in_parts: bool = False) -> None:
        """Copy the tensors of a call that are wanted elsewhere; `in_parts` for a composite operator."""
        import torch

        self._start = torch._C._autograd._get_sequence_nr()
        uses = Counter(map(id, tensors))
        for tensor in tensors:
            target = self._target_of(tensor)
            if tensor.device == target or id(tensor) in self._copies:
                continue
            copy = copied(tensor, target, max(uses[id(tensor)], _PIECES if in_parts else 1))
            self._copies[id(tensor)] = copy, _version(copy)
            self._lent |= dict.fromkeys(memories(copy), (tensor, copy, target))

    def place(self, _: str, __: str, tensor: torch.Tensor) -> torch.Tensor:
        """The tensor, or its copy where it is wanted elsewhere; as `rebuilt` calls it."""
        known = self._copies.get(id(tensor))
        return tensor if known is None else known[0]

    def saving(self, tensors: Iterable[torch.Tensor]) -> AbstractContextManager[Any]:
        """Inside it autograd keeps originals in the place of copies.

        Only a backward pass may ask for them: `grad_fn._saved_self` is the original itself on one device,
        and can be neither a copy nor an alias.
        """
        import torch

        if not torch.is_grad_enabled() or not any(tensor.requires_grad for tensor in tensors):
            return nullcontext()
        if torch._C._autograd._saved_tensors_hooks_get_disabled_error_message() is not None:
            raise Reached(Phrase("heal.hooks-off"))
        held, theirs = {id(tensor) for tensor in tensors}, _hooks_of_the_program()

        def pack(tensor: torch.Tensor) -> Any:
            known = next(
                (found for part in memories(tensor) if (found := self._lent.get(part)) is not None), None
            )
            if known is not None:
                original, copy, target = known
                kept = _same_view(original, copy, tensor)
                if theirs is not None:
                    return _Packed(theirs[0](kept), target)
                return _Original(kept, kept._cdata, _version(original), target)
            if theirs is not None:
                return theirs[0](tensor)
            # A result holds the graph that would hold it; a part of it does not, and knows of the same
            # writes.
            own = tensor if tensor.is_leaf or id(tensor) in held else tensor.detach()
            return _Own(own, own._cdata, _version(tensor))

        def unpack(kept: Any) -> Any:
            if theirs is not None and not isinstance(kept, _Packed):
                return theirs[1](kept)
            if not _asked_by_backward(sys._getframe().f_back):
                raise RuntimeError(self._renderer.text(Phrase("heal.saved-read")))
            if theirs is None:
                return self._unpacked(kept)
            return self._copied_again(theirs[1](kept.value), kept.target)

        return torch.autograd.graph.saved_tensors_hooks(pack, unpack)

    def _unpacked(self, kept: _Original | _Own) -> torch.Tensor:
        if kept.tensor._cdata != kept.identity:
            raise RuntimeError(self._renderer.text(Phrase("heal.swapped")))
        now = _version(kept.tensor)
        if now != kept.version:
            kind = f"{kept.tensor.type()} {list(kept.tensor.shape)}"
            raise RuntimeError(
                "one of the variables needed for gradient computation has been modified by an inplace "
                f"operation: [{kind}] is at version {now}; expected version {kept.version} instead."
            )
        return kept.tensor if isinstance(kept, _Own) else self._copied_again(kept.tensor, kept.target)

    def _copied_again(self, tensor: torch.Tensor, target: torch.device) -> torch.Tensor:
        import torch

        if (
            torch.is_grad_enabled()
        ):  # the copy would be kept by the graph of the gradients, where nobody watches it
            raise RuntimeError(self._renderer.text(Phrase("heal.graph-of-gradients")))
        return copied(tensor, target)

    def check(self, result: Any) -> None:
        """Raises `Reached` when a result shares memory with a copy, or a copy was written to."""
        for copy, version in self._copies.values():
            if _version(copy) != version:
                raise Reached(Phrase("heal.copy-written"))
        for _, _, tensor in tensors_of(result):
            if any(part in self._lent for part in memories(tensor)):
                raise Reached(Phrase("heal.copy-returned"))

    def follow(self, results: Iterable[torch.Tensor]) -> None:
        """Have the pieces of gradients arrive in their order; see Note [Order of gradients].

        Raises `Reached` where there are more than can be told apart.
        """
        crossings = {
            id(node): node for copy, _ in self._copies.values() if (node := copy.grad_fn) is not None
        }
        if not crossings:
            return
        found = list(self._pieces(results, crossings))
        counts = Counter(id(crossing) for _, _, crossing in found)
        for node, position, crossing in found:
            count = counts[id(crossing)]
            if count > crossing.uses:
                raise Reached(Phrase("heal.many-pieces", count=count))
            if count > 1:
                handle = node.register_hook(functools.partial(_take, position, crossing.pieces))
                node.register_prehook(functools.partial(_put_last, handle))

    def _pieces(
        self, results: Iterable[torch.Tensor], crossings: dict[int, Any]
    ) -> Iterator[tuple[Any, int, Any]]:
        """Nodes of the call with a piece of a copy's gradient, its position there, and the copy's node."""
        nodes = [each.grad_fn for each in results]
        seen = set()
        while nodes:
            node: Any = nodes.pop()
            if node is None or node in seen or isinstance(node, _crossing()._backward_cls):
                continue
            if node._sequence_nr() < self._start:
                continue  # made before the call
            seen.add(node)
            for position, (inner, _) in enumerate(node.next_functions):
                crossing = crossings.get(id(inner))
                if crossing is None:
                    nodes.append(inner)
                else:
                    yield node, position, crossing


def _take(position: int, pieces: dict[int, list[torch.Tensor]], gradients: Any, _: Any) -> None:
    """Note a piece of a copy's gradient; a hook of the node that made it."""
    import torch

    if gradients[position] is not None:
        pieces.setdefault(torch._C._current_graph_task_id(), []).append(gradients[position])


def _put_last(handle: Any, _: Any) -> None:
    """Let a hook of a node run after those that the program has set since; a hook before the node runs."""
    hooks = handle.hooks_dict_ref()
    if hooks is not None and handle.id in hooks:
        hooks[handle.id] = hooks.pop(handle.id)  # C++ does not ask in which order an OrderedDict has them


def _asked_by_backward(frame: FrameType | None) -> bool:
    """Whether autograd itself asks for what it keeps, and not the program, in a hook for instance."""
    import torch

    by_torch = frame is None or _internal()(frame.f_code.co_filename)
    return by_torch and torch._C._current_graph_task_id() != -1


@functools.cache
def _internal() -> Callable[[str], bool]:
    import torch

    ours = Path(__file__).parent.parent
    return FrameFilter((f"{Path(torch.__file__).parent}/", f"{ours}/"), None).internal


def _autocast(kind: str) -> torch.dtype | None:
    """To what autocast casts on a kind of device; None where it is off."""
    import torch

    return torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else None


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
