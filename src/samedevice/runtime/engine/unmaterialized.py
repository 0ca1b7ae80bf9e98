"""What an operator does that meets a tensor on the meta device among tensors that have data.

Note [Meta beside data]
The dispatcher prefers meta to every other backend: with one tensor on meta the operator's shape function runs
and no kernel does. What comes of it depends on that function alone. Those in Python compare devices (`add`,
`mul`, `layer_norm`); those in C++ do not: a product with a weight that was never loaded raises nothing, and
its result is on the GPU, in memory that nobody filled, or on meta, wherever its options came from. So no
table says what happens: torch is asked, with tensors on the host in the place of those on a GPU. A number on
the host is let pass where one on a GPU is not, so it is asked as a tensor of one element first. On an NVIDIA
H200 (torch 2.11) a quarter of the database's cases raised nothing: `measurements/rules`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from samedevice.runtime.state import CPU, META, VALUE_LIMIT, Call, tensors_in
from samedevice.runtime.tracking import replace_tensors, stand_in

Tensor = torch.Tensor
_LARGEST = 1 << 32
"""Bytes of the stand-in of a tensor that is written: the system backs none of its pages."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What torch said."""

    error: Exception | None
    to_meta: bool
    """Whether the results are on meta, where nothing was raised."""


def asked(
    call: Call, named: Sequence[tuple[str, torch.Tensor, bool]], devices: Sequence[torch.device]
) -> Answer | None:
    """What torch says of a call with these tensors; None where it could not be asked."""
    if any(t.layout is not torch.strided or t.is_quantized for _, t, _ in named):
        return None
    gpu = next((device for device in devices if device.type == "cuda"), CPU)
    data = [(t, written) for (_, t, written), device in zip(named, devices, strict=True) if device != META]
    if gpu != CPU and any(tensor.dim() == 0 for tensor, _ in data):
        answer = _tried(call, data, gpu, numbers=False)
        if answer is not None and (answer.error is None or "device" in str(answer.error)):
            return answer
    return _tried(call, data, gpu, numbers=True)


def _tried(
    call: Call, data: Sequence[tuple[Tensor, bool]], gpu: torch.device, *, numbers: bool
) -> Answer | None:
    """What torch says with stand-ins on the host; without `numbers`, one without dimensions gets one."""
    try:
        places = {id(tensor): _place(tensor, written, numbers) for tensor, written in data}
    except RuntimeError:  # more than this computer has
        return None
    args = tuple(replace_tensors(value, places) for value in call.args)
    kwargs = {name: replace_tensors(value, places) for name, value in call.kwargs.items()}
    try:
        with torch.no_grad():
            result = call.op.func(*args, **kwargs)
    except RuntimeError as error:
        return Answer(_in_words_of(error, gpu), to_meta=False)
    except Exception:
        return None
    return Answer(None, to_meta=any(each.device == META for each in tensors_in(result)))


def _in_words_of(error: RuntimeError, gpu: torch.device) -> RuntimeError:
    """The error that a GPU gives, of the same type."""
    return type(error)(str(error).partition("\n")[0].replace("cpu", str(gpu)))


def _place(tensor: Tensor, written: bool, numbers: bool) -> Tensor:
    """A tensor on the host of that shape; what is in it does not matter."""
    if not numbers and tensor.dim() == 0:
        return torch.empty(1, dtype=tensor.dtype, device=CPU)
    nbytes = tensor.numel() * tensor.element_size()
    if nbytes > VALUE_LIMIT and not written:
        return stand_in(tensor)
    if nbytes > _LARGEST:
        raise RuntimeError("too large")
    return torch.empty_strided(tensor.size(), tensor.stride(), dtype=tensor.dtype, device=CPU)
