"""Which attention kernel a GPU would run: flash, memory-efficient, cuDNN's or plain arithmetic.

Source: `aten/src/ATen/native/transformers/cuda/sdp_utils.cpp` and `ATen/native/transformers/sdp_utils_cpp.h`
(a header in every torch distribution). One function per check, in the order of the lists there; nested
tensors and ROCm are left out. That the memory-efficient kernel takes no grouped heads is from the
documentation of `scaled_dot_product_attention` (torch 2.13).
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum

import torch

from samedevice.runtime.cuda import CUDA_VERSION, CUDNN_VERSION

Tensor = torch.Tensor
_get = torch._C


class Kernel(IntEnum):
    """Numbers of `at::SDPBackend`."""

    MATH = 0
    FLASH = 1
    EFFICIENT = 2
    CUDNN = 3


@dataclass(frozen=True, slots=True)
class Attention:
    """The arguments that decide, and the GPU's compute capability."""

    query: torch.Tensor
    key: torch.Tensor
    value: torch.Tensor
    mask: torch.Tensor | None
    dropout: float
    causal: bool
    grouped: bool
    capability: tuple[int, int]

    @property
    def trains(self) -> bool:
        """Whether a backward may follow."""
        return torch.is_grad_enabled() and any(t.requires_grad for t in (self.query, self.key, self.value))


Check = Callable[[Attention], bool]


def _from_sm50(a: Attention) -> bool:
    return (5, 0) <= a.capability <= (12, 1)


def _from_sm80(a: Attention) -> bool:
    return (8, 0) <= a.capability <= (12, 1)


def _four_dimensions(a: Attention) -> bool:
    return a.query.dim() == a.key.dim() == a.value.dim() == 4


def _same_type(a: Attention, allowed: tuple[torch.dtype, ...]) -> bool:
    return a.query.dtype in allowed and a.query.dtype == a.key.dtype == a.value.dtype


def _half_types(a: Attention) -> bool:
    return _same_type(a, (torch.float16, torch.bfloat16) if a.capability[0] >= 8 else (torch.float16,))


def _efficient_types(a: Attention) -> bool:
    older = (torch.float16, torch.float32)
    return _same_type(a, (*older, torch.bfloat16) if a.capability[0] >= 8 else older)


def _no_mask(a: Attention) -> bool:
    return a.mask is None


def _flash_head_size(a: Attention) -> bool:
    return a.query.size(-1) == a.key.size(-1) == a.value.size(-1) <= 256


def _flash_head_size_in_training(a: Attention) -> bool:
    if not a.trains or not ((8, 6) <= a.capability <= (8, 9) or (12, 0) <= a.capability <= (12, 1)):
        return True
    size = a.query.size(-1)
    return size <= 192 or (a.dropout == 0.0 and size > 224)


def _square_when_causal(a: Attention) -> bool:
    return not a.causal or a.query.size(-2) == a.key.size(-2)


def _gemm_alignment(a: Attention) -> int:
    half = a.query.dtype in (torch.float16, torch.bfloat16)
    tensor_cores = a.capability[0] >= 8 or (a.capability[0] >= 7 and half)
    alignment = 4 if a.capability[0] >= 8 else 1
    return max(alignment, 128 // (16 if half else 32)) if tensor_cores else alignment


def _efficient_head_size(a: Attention) -> bool:
    alignment = _gemm_alignment(a)
    own, values = a.query.size(-1), a.value.size(-1)
    return (
        own == a.key.size(-1) and own > 0 and values > 0 and own % alignment == 0 and values % alignment == 0
    )


def _aligned_offsets(a: Attention) -> bool:
    if a.capability[0] < 8:
        return True
    alignment = _gemm_alignment(a) * a.query.element_size()
    return all(
        t.numel() == 0 or t.storage_offset() * t.element_size() % alignment == 0
        for t in (a.query, a.key, a.value)
    )


def _some_tokens(a: Attention) -> bool:
    return a.query.size(-2) != 0 and a.key.size(-2) != 0


def _dense_rows(a: Attention) -> bool:
    rows = a.query.stride(-1) == 1 and a.key.stride(-1) == 1 and a.value.stride(-1) == 1
    return rows and (a.mask is None or a.mask.dim() == 0 or a.mask.stride(-1) == 1)


def _dense_rows_or_one(a: Attention) -> bool:
    rows = a.query.stride(-1) == 1 and a.key.stride(-1) == 1 and a.value.stride(-1) == 1
    return (rows or a.query.size(-1) == 1) and (a.mask is None or a.mask.dim() == 0 or a.mask.stride(-1) == 1)


def _heads(a: Attention, *, same_key_and_value: bool) -> bool:
    if not a.query.size(0) == a.key.size(0) == a.value.size(0):
        return False
    heads, keys, values = a.query.size(-3), a.key.size(-3), a.value.size(-3)
    if not a.grouped:
        return heads == keys == values
    if same_key_and_value and keys != values:
        return False
    return keys != 0 and values != 0 and heads % keys == 0 and heads % values == 0


def _heads_alike(a: Attention) -> bool:
    return _heads(a, same_key_and_value=True)


def _heads_of_cudnn(a: Attention) -> bool:
    return _heads(a, same_key_and_value=False)


def _heads_ungrouped(a: Attention) -> bool:
    return a.query.shape[:2] == a.key.shape[:2] == a.value.shape[:2]


def _mask_shape(a: Attention) -> bool:
    mask = a.mask
    if mask is None:
        return True
    if mask.requires_grad or mask.dim() not in (2, 4):
        return False
    wanted = (a.query.size(0), a.query.size(1), a.query.size(2), a.key.size(2))
    return all(own in (1, whole) for own, whole in zip(reversed(mask.shape), reversed(wanted), strict=False))


def _not_deterministic(a: Attention) -> bool:
    return (
        not torch.are_deterministic_algorithms_enabled()
        or torch.is_deterministic_algorithms_warn_only_enabled()
    )


def _sixteenths(a: Attention) -> bool:
    return (a.dropout * 16.0).is_integer()


def _cudnn_shapes(a: Attention) -> bool:
    batch, heads, tokens, size = a.query.shape
    values = a.value.size(-1)
    newest = a.capability[0] == 10 or a.capability == (9, 0)
    limit = 192 if newest and CUDNN_VERSION >= 91100 and (size, values) == (192, 128) else 128
    return (
        max(batch, heads) <= 65535
        and max(size, values) <= limit
        and size % 8 == 0
        and values % 8 == 0
        and a.key.size(2) != 1
        and not (a.dropout != 0.0 and tokens == 1)
    )


_CHECKS: dict[Kernel, tuple[Check, ...]] = {
    Kernel.FLASH: (
        _four_dimensions, _no_mask, _flash_head_size, _from_sm80, _flash_head_size_in_training,
        _square_when_causal, _half_types,
        _heads_alike, _some_tokens, _dense_rows_or_one,
    ),
    Kernel.EFFICIENT: (
        _from_sm50, _four_dimensions, _efficient_head_size, _aligned_offsets, _some_tokens, _dense_rows,
        _heads_ungrouped, _efficient_types,
    ),
    Kernel.CUDNN: (
        _four_dimensions, _not_deterministic, _half_types, _mask_shape, _from_sm80, _sixteenths, _some_tokens,
        _dense_rows_or_one, _heads_of_cudnn, _cudnn_shapes,
    ),
    Kernel.MATH: (),
}  # fmt: skip

_ENABLED: dict[Kernel, Callable[[], bool]] = {
    Kernel.FLASH: _get._get_flash_sdp_enabled,
    Kernel.EFFICIENT: _get._get_mem_efficient_sdp_enabled,
    Kernel.CUDNN: _get._get_cudnn_sdp_enabled,
    Kernel.MATH: _get._get_math_sdp_enabled,
}


def can_use(kernel: Kernel, attention: Attention) -> bool:
    """Whether a kernel is switched on and takes these arguments."""
    return _ENABLED[kernel]() and all(check(attention) for check in _CHECKS[kernel])


def choose(attention: Attention) -> Kernel:
    """The first kernel in torch's order of preference that can be used.

    Raises RuntimeError when there is none, as CUDA does.
    """
    if not any(enabled() for enabled in _ENABLED.values()):
        raise RuntimeError(
            "No viable backend for scaled_dot_product_attention was found. "
            "This is likely due to turning off both the math kernel and the fused kernels."
        )
    for number in _order(attention.capability):
        if number in _NUMBERS and can_use(Kernel(number), attention):
            return Kernel(number)
    raise RuntimeError("No available kernel. Aborting execution.")


_NUMBERS = {int(kernel) for kernel in Kernel}
_DEFAULT_ORDER = [Kernel.FLASH, Kernel.EFFICIENT, Kernel.MATH, Kernel.CUDNN]


def _order(capability: tuple[int, int]) -> list[int]:
    order: list[int] = [int(number) for number in _get._get_sdp_priority_order()]
    if [n for n in order if n in _NUMBERS] == _DEFAULT_ORDER and _prefers_cudnn(capability):
        return [Kernel.CUDNN, Kernel.FLASH, Kernel.EFFICIENT, Kernel.MATH]
    return order


def _prefers_cudnn(capability: tuple[int, int]) -> bool:
    if os.environ.get("TORCH_CUDNN_SDPA_DEPRIORITIZED") == "1" or CUDNN_VERSION <= 91500:
        return False
    return capability[0] in (9, 10) and (int(CUDA_VERSION.split(".")[0]) >= 13 or capability[1] in (0, 3))
