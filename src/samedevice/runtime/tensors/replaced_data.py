"""`x.data = y` on a virtual machine.

Torch puts the new memory into the tensor that C++ has, also between CPU and CUDA. It does not between the
host and meta, so there Python's object gets another tensor of C++. `_cdata` and `_base` of views answer as if
it had kept its own.

Note [Graphs that hold what was replaced]
A graph made before holds the tensor that C++ had, and hands its gradient there. So that one hands it on: a
leaf adds it to the gradient of Python's object, on the device where it was computed, as torch does; the new
tensor of what is no leaf is a result of the old one. No gradient is lost, and where hardware refuses to add
gradients of two devices, so does the machine.
"""

from __future__ import annotations

import weakref
from collections.abc import MutableMapping
from contextlib import nullcontext
from typing import Any

import torch
from torch.autograd.grad_mode import _unsafe_preserve_version_counter
from torch.overrides import handle_torch_function, has_torch_function_unary
from torch.utils.weak import WeakIdKeyDictionary

from samedevice.errors import UnsupportedFeatureError
from samedevice.runtime.patching import Constant, Patch
from samedevice.runtime.state import is_carrier, storage_of, this_thread
from samedevice.runtime.tensors.gradients import host_carrier
from samedevice.runtime.tensors.tensor import host_copy, seen_device

Tensor = torch.Tensor
_data: Any = torch._C.TensorBase.data
_gradient: Any = torch._C.TensorBase.grad
_cdata: Any = vars(torch._C.TensorBase)["_cdata"]
_base: Any = vars(torch._C.TensorBase)["_base"]


_INCOMPATIBLE = (
    "Attempted to call `variable.set_data(tensor)`, but `variable` and `tensor` have "
    "incompatible tensor type."
)
"""torch/csrc/autograd/variable.cpp, set_data: memory on meta and memory with data are of two types."""


def _set_data(self: torch.Tensor, new: torch.Tensor) -> None:
    """`x.data = y`; Python's object stays.

    For dense CPU and CUDA memory it is all the same whether inference mode made one of the two; for meta C++
    refuses the mixture.
    """
    if has_torch_function_unary(self) and not this_thread.raw:
        handle_torch_function(Tensor.data.__set__, (self,), self, new)  # type: ignore[attr-defined]
        # the property below
        return
    if (seen_device(self).type == "meta") is not (seen_device(new).type == "meta"):
        raise RuntimeError(_INCOMPATIBLE)
    virtual = is_carrier(self), is_carrier(new)
    if any(virtual) and self.is_inference() != new.is_inference():
        with torch.inference_mode(self.is_inference()):
            same = torch.empty(0, dtype=new.dtype, device=seen_device(new))
            new = same.set_(storage_of(new), new.storage_offset(), new.size(), new.stride())
    dense = self.layout is new.layout is torch.strided
    if virtual == (True, False) and (_has_gradient_of_other_size(self, new) or (dense and _is_held(self))):
        _data.__set__(self, host_carrier(new))
    elif virtual[0] == virtual[1]:
        _data.__set__(self, new)
    else:
        _replace(self, new)


def _has_gradient_of_other_size(tensor: torch.Tensor, new: torch.Tensor) -> bool:
    """Whether the tensor has a gradient that C++ would not take beside the new memory.

    As in FSDP1, which gives a flat parameter its shard on the host before it reduces the whole gradient on
    the GPU. Torch looks at sizes and devices only when a gradient is set, and leaves it where it is.
    """
    return tensor.is_leaf and tensor.grad is not None and tensor.grad.shape != new.shape


def _is_held(tensor: torch.Tensor) -> bool:
    """Whether C++ has this tensor as well, as it has the gradient of a leaf: it must see the new memory."""
    return tensor.is_leaf and not tensor.requires_grad and tensor._use_count() > 1  # type: ignore[attr-defined]  # not in torch's stub


def _replace(tensor: torch.Tensor, new: torch.Tensor) -> None:
    """Give Python's object another tensor of C++; see Note [Graphs that hold what was replaced]."""
    gradient = tensor.grad if tensor.is_leaf else None
    if gradient is not None:
        tensor.grad = None
    if not tensor.is_leaf:
        with torch.enable_grad():
            twin: torch.Tensor = _Replaced.apply(tensor, new)  # type: ignore[no-untyped-call] # torch's own
        if tensor.retains_grad:
            twin.retain_grad()
        _swap(tensor, twin)
        return
    held = tensor.requires_grad and tensor._use_count() > 1  # type: ignore[attr-defined] # not in torch's stub
    twin = _data.__get__(new).requires_grad_(tensor.requires_grad)
    _swap(tensor, twin)
    for name in ("_backward_hooks", "_post_accumulate_grad_hooks"):
        hooks = getattr(tensor, name)
        if hooks is not None:  # C++ calls them through the memory that was swapped away
            setattr(tensor, name, None)
            setattr(tensor, name, hooks)
    if held:
        _hand_on(twin, tensor)
    if gradient is not None:
        _keep_gradient(tensor, gradient)


def _keep_gradient(tensor: torch.Tensor, gradient: torch.Tensor) -> None:
    """Give a leaf its gradient back, the same object; C++ wants both to be carriers, or none.

    Torch leaves the gradient as it is. Here it takes the tensor's type, and that of a tensor that came from a
    GPU to the host comes along.
    """
    kept = gradient.detach().to(tensor.dtype)
    kept = host_carrier(kept) if is_carrier(tensor) else host_copy(kept).clone()
    if gradient.is_leaf:
        _swap(gradient, kept)
        kept = gradient
    _gradient.__set__(tensor, kept)


def assign_gradient(tensor: torch.Tensor, gradient: torch.Tensor) -> None:
    """`x.grad = y` where one is a carrier and the other is in real memory of the host.

    Both become carriers, over the same bytes: memory of the host without values stays without.
    """
    if is_carrier(tensor):
        _keep_gradient(tensor, gradient)
        return
    _replace(tensor, host_carrier(tensor.detach()))
    _gradient.__set__(tensor, gradient)


def _swap(tensor: torch.Tensor, twin: torch.Tensor) -> None:
    """Exchange what two objects of Python stand for; the count of writes is that of the object."""
    address = _address_of(tensor)
    counted = nullcontext() if tensor.is_inference() else _unsafe_preserve_version_counter(tensor)
    with torch.no_grad(), counted:
        torch._C._swap_tensor_impl(tensor, twin)
    _addresses[tensor] = address
    vars(twin)[_OWNER] = weakref.ref(tensor)


_addresses: MutableMapping[torch.Tensor, int] = WeakIdKeyDictionary()
"""What `_cdata` was before Python's object got another tensor of C++."""
_OWNER = "_sd_owner"
"""Attribute of a tensor that C++ still has, for the object whose memory was replaced."""


def _address_of(tensor: torch.Tensor) -> int:
    """`_cdata`: stays what it is while the memory is replaced."""
    address: int | None = _addresses.get(tensor)
    return int(_cdata.__get__(tensor)) if address is None else address


def _base_of(view: torch.Tensor) -> torch.Tensor | None:
    """`_base`: Python's object, whatever tensor of C++ it has by now."""
    base: torch.Tensor | None = _base.__get__(view)
    owner = None if base is None or this_thread.raw else vars(base).get(_OWNER)
    found: torch.Tensor | None = None if owner is None else owner()
    return base if found is None else found


class _Replaced(torch.autograd.Function):
    """The new memory, as a result of the old one."""

    @staticmethod
    def forward(context: Any, old: torch.Tensor, new: torch.Tensor) -> torch.Tensor:
        made: torch.Tensor = _data.__get__(new)  # has a count of writes of its own
        return made

    @staticmethod
    def backward(context: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, None]:
        return gradient, None


def _hand_on(former: torch.Tensor, tensor: torch.Tensor) -> None:
    """Let a gradient that arrives at the former tensor of C++ get to Python's object."""
    owner = weakref.ref(tensor)

    def hand_on(former: torch.Tensor) -> None:
        gradient, former.grad = former.grad, None
        found = owner()
        if found is None or gradient is None:
            return
        _add(found, gradient)
        hooks: Any = found._post_accumulate_grad_hooks
        for hook in tuple((hooks or {}).values()):
            hook(found)

    former.register_post_accumulate_grad_hook(hand_on)  # type: ignore[no-untyped-call] # torch's own


def _add(tensor: torch.Tensor, gradient: torch.Tensor) -> None:
    """Add to the gradient of a leaf, on whatever device each of them is, as torch itself does."""
    if tensor.grad is not None:
        if gradient.requires_grad or tensor.grad.requires_grad:
            _gradient.__set__(tensor, tensor.grad + gradient)
        else:
            tensor.grad.add_(gradient)
        return
    if is_carrier(tensor) != is_carrier(gradient):
        if gradient.requires_grad:
            raise UnsupportedFeatureError(
                "A graph of gradients (create_graph=True) of a tensor whose data moved between the host and "
                "a GPU after it was used is not supported on a virtual machine."
            )
        if is_carrier(tensor):
            gradient = host_carrier(gradient)
        else:  # C++ takes no gradient of a GPU for memory of the host
            _replace(tensor, host_carrier(tensor.detach()))
    _gradient.__set__(tensor, gradient)


_ANOTHER = "a tensor whose memory moved between the host and a GPU has another tensor of C++"
PATCHES = (
    Patch(
        "torch.Tensor.data",
        Constant(property(_data.__get__, _set_data, _data.__delete__)),
        "C++ exchanges no memory of the host and of meta, as it does between the host and CUDA",
    ),
    Patch("torch.Tensor._cdata", Constant(property(_address_of)), _ANOTHER),
    Patch("torch.Tensor._base", Constant(property(_base_of)), _ANOTHER),
)
