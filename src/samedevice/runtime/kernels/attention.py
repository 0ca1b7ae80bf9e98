"""Attention on virtual tensors takes the kernel that the GPU would choose.

That is `scaled_dot_product_attention`, and the fast path of the encoder layers.

Must guarantee: no matrix of scores enters the ledger where a fused kernel runs; devices are judged by the
operators that the GPU would reach; real CPU tensors and a user's meta tensors take torch's own route.

Note [Attention below autograd's composite]
Attention is a composite operator: C++ takes it apart before any mode sees it, and for carriers takes plain
arithmetic. Its kernel for the key `AutogradMeta` is replaced, which only tensors that are meta for C++ reach;
under inference mode, where the engine takes composites apart, the same function is found through
`OpOverload.py_kernels`.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch.library import Library

from samedevice.events import EventKind
from samedevice.runtime.kernels.attention_choice import Attention, Kernel, can_use, choose
from samedevice.runtime.kernels.attention_math import KERNELS
from samedevice.runtime.kernels.registrations import Registration
from samedevice.runtime.kernels.replacements import composite, replaced
from samedevice.runtime.patching import Change, Constant, Patch
from samedevice.runtime.state import (
    META,
    caller,
    current_machine,
    is_virtual,
    memory_of,
    operator,
    this_thread,
    type_name,
)
from samedevice.runtime.tensors import move, seen_device
from samedevice.runtime.tracking import Recorder

Tensor = torch.Tensor
aten = torch.ops.aten
_attention = aten.scaled_dot_product_attention.default


# -- the operator


def attend(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attn_mask: torch.Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> torch.Tensor:
    """`aten::scaled_dot_product_attention` where some tensor is a carrier."""
    if not any(seen_device(tensor).type == "cuda" for tensor in (query, key, value)):
        plain: torch.Tensor = composite(
            _attention, query, key, value, attn_mask, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa
        )
        return plain
    _check_types(query, key, value)
    query, key, value, attn_mask = _together(query, key, value, attn_mask)
    _check_shapes(query, key, value, attn_mask)
    capability = current_machine().gpu(seen_device(query).index).capability
    kernel = choose(Attention(query, key, value, attn_mask, dropout_p, is_causal, enable_gqa, capability))
    return _ROUTES[kernel](query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa)


def _check_types(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> None:
    if not query.dtype == key.dtype == value.dtype:
        raise RuntimeError(
            "Expected query, key, and value to have the same dtype, but got query.dtype: "
            f"{type_name(query.dtype)} key.dtype: {type_name(key.dtype)} and value.dtype: "
            f"{type_name(value.dtype)} instead."
        )


def _check_shapes(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, mask: torch.Tensor | None
) -> None:
    if min(query.dim(), key.dim(), value.dim()) < 2:
        raise RuntimeError(
            "Expected query, key, and value to all be  at least 2 dimensional, but got query.dim: "
            f"{query.dim()} key.dim: {key.dim()} and value.dim: {value.dim()} instead."
        )
    if mask is not None and mask.dtype not in (torch.bool, torch.float32, query.dtype):
        raise RuntimeError(
            "Expected attn_mask dtype to be bool or float or to match query dtype, but got attn_mask.dtype: "
            f"{type_name(mask.dtype)} and  query.dtype: {type_name(query.dtype)} instead."
        )


def _together(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, mask: torch.Tensor | None
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor | None]:
    """The operator compares the first three itself, before any kernel does.

    What a kernel finds is the mask.
    """
    tensors = (query, key, value)
    devices = [seen_device(tensor) for tensor in tensors]
    if devices[0] == devices[1] == devices[2]:
        return query, key, value, mask
    home = next(device for device in devices if device.type == "cuda")
    message = (
        "Expected query, key, and value to have the same device type, but got query.device: "
        f"{devices[0]} key.device: {devices[1]} and value.device: {devices[2]} instead."
    )
    named = [(name, tensor, False) for name, tensor in zip(("query", "key", "value"), tensors, strict=True)]
    kind = (
        EventKind.UNMATERIALIZED if any(device.type == "meta" for device in devices) else EventKind.MISMATCH
    )
    current_machine().part(Recorder).refused(
        kind, operator(_attention).name, message, named, devices, caller()
    )
    first, second, third = [_bring(tensor, home) for tensor in tensors]
    return first, second, third, None if mask is None else _bring(mask, home)


def _bring(tensor: torch.Tensor, home: torch.device) -> torch.Tensor:
    if seen_device(tensor) == META:
        return torch.empty(tensor.shape, dtype=tensor.dtype, device=home)
    return move(tensor, home)


# -- the kernels


def _flash(
    query: Any, key: Any, value: Any, mask: Any, dropout: float, causal: bool, scale: Any, grouped: bool
) -> Any:
    size = query.size(-1)
    scale = 1 / math.sqrt(size) if scale is None else scale
    if size % 8:
        query, key, value = [
            torch.nn.functional.pad(tensor, (0, 8 - size % 8)) for tensor in (query, key, value)
        ]
    out = aten._scaled_dot_product_flash_attention.default(
        query, key, value, dropout, causal, False, scale=scale
    )[0]
    return out[..., :size] if size % 8 else out


def _efficient(
    query: Any, key: Any, value: Any, mask: Any, dropout: float, causal: bool, scale: Any, grouped: bool
) -> Any:
    mask = _additive(mask, query.dtype, -math.inf)
    if mask is not None:
        if mask.dtype != query.dtype:
            raise RuntimeError("invalid dtype for bias - should match query's dtype")
        if mask.stride(-1) != 1 or any(stride % 8 for stride in mask.stride()[:-1]):
            last = mask.size(-1)
            mask = torch.nn.functional.pad(mask, (0, 8 - last % 8))[..., :last]
        mask = mask.expand(query.size(0), query.size(1), query.size(2), key.size(2))
    return aten._scaled_dot_product_efficient_attention.default(
        query, key, value, mask, _trains(query, key, value), dropout, causal, scale=scale
    )[0]


def _cudnn(
    query: Any, key: Any, value: Any, mask: Any, dropout: float, causal: bool, scale: Any, grouped: bool
) -> Any:
    mask = _additive(mask, query.dtype, -65504.0)
    return aten._scaled_dot_product_cudnn_attention.default(
        query, key, value, mask, _trains(query, key, value), dropout, causal, False, scale=scale
    )[0]


def _math(
    query: Any, key: Any, value: Any, mask: Any, dropout: float, causal: bool, scale: Any, grouped: bool
) -> Any:
    """`_scaled_dot_product_attention_math`, whose causal mask C++ would make on the carrier's device."""
    dtype = query.dtype
    mask = _additive(mask, dtype, -math.inf)
    if dtype in (torch.float16, torch.bfloat16) and not torch._C._get_math_sdp_allow_fp16_bf16_reduction():
        query, key, value = query.float(), key.float(), value.float()
    factor = math.sqrt(abs(1 / math.sqrt(query.size(-1)) if scale is None else scale))
    query = query * (-factor if scale is not None and scale < 0 else factor)
    if causal:
        if mask is not None:
            raise RuntimeError(
                "_scaled_dot_product_attention: Explicit attn_mask should not be set when is_causal=True"
            )
        below = torch.ones(query.size(-2), key.size(-2), dtype=torch.bool, device=query.device).tril()
        mask = _additive(below, query.dtype, -math.inf)
    if grouped:
        key, value = [_repeated(tensor, query.size(-3)) for tensor in (key, value)]
    scores = torch.matmul(query, key.transpose(-2, -1) * factor)
    if mask is not None:
        # `areAnyTensorSubclassLike` is true of a tensor on meta: C++ writes into none then
        scores = scores + mask if seen_device(mask) == META else scores.add_(mask)
    scores = torch._safe_softmax(scores, -1)
    if dropout > 0.0:
        scores = torch.dropout(scores, dropout, True)
    return torch.matmul(scores, value).to(dtype)


def _repeated(tensor: torch.Tensor, heads: int) -> torch.Tensor:
    own = tensor.size(-3)
    if own == heads:
        return tensor
    if own == 0 or heads % own:
        raise RuntimeError("Number of heads in key and value must divide the number of heads in ")
    return tensor.repeat_interleave(heads // own, -3)


def _additive(mask: torch.Tensor | None, dtype: torch.dtype, refused: float) -> torch.Tensor | None:
    if mask is None or mask.dtype != torch.bool:
        return mask
    return torch.zeros(mask.shape, dtype=dtype, device=mask.device).masked_fill_(mask.logical_not(), refused)


def _trains(*tensors: torch.Tensor) -> bool:
    return torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors)


_ROUTES: dict[Kernel, Callable[..., torch.Tensor]] = {
    Kernel.MATH: _math,
    Kernel.FLASH: _flash,
    Kernel.EFFICIENT: _efficient,
    Kernel.CUDNN: _cudnn,
}


# -- the fast path of encoder layers


def _in_parts(tensors: tuple[Any, ...]) -> bool:
    """Whether to run the parts of a fused layer: all on one GPU, and too large to have values."""
    given = [tensor for tensor in tensors if isinstance(tensor, Tensor)]
    if this_thread.raw or any(tensor.is_nested for tensor in given):
        return False
    devices = {seen_device(tensor) for tensor in given}
    if len(devices) != 1 or next(iter(devices)).type != "cuda":
        return False
    return any((record := memory_of(tensor)) is not None and record.shadow is None for tensor in given)


def _multi_head(original: Callable[..., Any]) -> Callable[..., Any]:
    """`torch._native_multi_head_attention`, part by part as `native_multi_head_attention_cuda` runs it."""

    def run(
        query: Any, key: Any, value: Any, embed_dim: int, num_head: int, qkv_weight: Any, qkv_bias: Any,
        proj_weight: Any,
        proj_bias: Any, mask: Any = None, need_weights: bool = True, average_attn_weights: bool = True,
        mask_type: Any = None,
    ) -> Any:  # fmt: skip
        given = (query, key, value, qkv_weight, qkv_bias, proj_weight, proj_bias, mask)
        if not _in_parts(given) or query.dim() != 3 or query.shape != key.shape or key.shape != value.shape:
            return original(
                query, key, value, embed_dim, num_head, qkv_weight, qkv_bias, proj_weight, proj_bias, mask,
                need_weights,
                average_attn_weights, mask_type,
            )  # fmt: skip
        batch, tokens, _ = query.shape
        if query is key and key is value:
            packed = torch.nn.functional.linear(query, qkv_weight, qkv_bias)
        else:
            weights, biases = qkv_weight.chunk(3), qkv_bias.chunk(3)
            each = zip((query, key, value), weights, biases, strict=True)
            packed = torch.cat([torch.nn.functional.linear(x, weight, bias) for x, weight, bias in each], -1)
        q, k, v = [part.view(batch, tokens, num_head, -1).transpose(1, 2) for part in packed.chunk(3, -1)]
        hidden = _hidden(mask, mask_type, batch, tokens)
        if not need_weights:
            context = torch.nn.functional.scaled_dot_product_attention(
                q, k, v, None if hidden is None else ~hidden
            )
            shares = None
        else:
            scores = torch.matmul(q / math.sqrt(q.size(-1)), k.mT)
            shares = torch.softmax(scores if hidden is None else scores.masked_fill_(hidden, -math.inf), -1)
            context = torch.matmul(shares, v)
            shares = shares.mean(1) if average_attn_weights else shares
        merged = context.transpose(1, 2).reshape(batch, tokens, embed_dim)
        return torch.nn.functional.linear(merged, proj_weight, proj_bias), shares

    return run


def _hidden(mask: Any, kind: int | None, batch: int, tokens: int) -> Any:
    """A fast path mask, True where nothing is seen, in a shape that broadcasts over the heads."""
    if mask is None:
        return None
    mask = mask.bool()
    if kind == 1:
        return mask.view(batch, 1, 1, tokens)
    return mask if mask.dim() in (2, 4) else mask.unsqueeze(1)


def _encoder_layer(original: Callable[..., Any]) -> Callable[..., Any]:
    """`torch._transformer_encoder_layer_fwd`, part by part as `transformer_encoder_layer_forward` runs it."""

    def run(
        src: Any, embed_dim: int, num_heads: int, qkv_weight: Any, qkv_bias: Any, proj_weight: Any,
        proj_bias: Any,
        use_gelu: bool, norm_first: bool, eps: float, norm_weight_1: Any, norm_bias_1: Any, norm_weight_2:
        Any, norm_bias_2: Any,
        ffn_weight_1: Any, ffn_bias_1: Any, ffn_weight_2: Any, ffn_bias_2: Any, mask: Any = None, mask_type:
        Any = None,
    ) -> Any:  # fmt: skip
        attention = (qkv_weight, qkv_bias, proj_weight, proj_bias)
        norms = ((norm_weight_1, norm_bias_1), (norm_weight_2, norm_bias_2))
        rest = (ffn_weight_1, ffn_bias_1, ffn_weight_2, ffn_bias_2)
        if not _in_parts((src, *attention, *norms[0], *norms[1], *rest, mask)):
            return original(
                src,
                embed_dim,
                num_heads,
                *attention,
                use_gelu,
                norm_first,
                eps,
                *norms[0],
                *norms[1],
                *rest,
                mask,
                mask_type,
            )

        def normed(x: Any, which: int) -> Any:
            return torch.nn.functional.layer_norm(x, (embed_dim,), *norms[which], eps)

        x = normed(src, 0) if norm_first else src
        x = torch._native_multi_head_attention(
            x, x, x, embed_dim, num_heads, *attention, mask, False, True, mask_type
        )[0]
        x = x.add_(src)
        if not norm_first:
            x = normed(x, 0)
        kept = x
        if norm_first:
            x = normed(x, 1)
        x = torch.nn.functional.linear(x, ffn_weight_1, ffn_bias_1)
        x = torch.nn.functional.gelu(x) if use_gelu else torch.relu(x)
        x = torch.nn.functional.linear(x, ffn_weight_2, ffn_bias_2).add_(kept)
        return x if norm_first else normed(x, 1)

    return run


# -- rows


def _choice(original: Callable[..., int]) -> Callable[..., int]:
    def fused_sdp_choice(
        query: Any, key: Any, value: Any, attn_mask: Any = None, dropout_p: float = 0.0, is_causal: bool =
        False, *,
        scale: float | None = None, enable_gqa: bool = False,
    ) -> int:  # fmt: skip
        if seen_device(query).type != "cuda":
            return original(
                query, key, value, attn_mask, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa
            )
        capability = current_machine().gpu(seen_device(query).index).capability
        return int(
            choose(Attention(query, key, value, attn_mask, dropout_p, is_causal, enable_gqa, capability))
        )

    return fused_sdp_choice


def _usable(kernel: Kernel, original: Callable[..., bool]) -> Callable[..., bool]:
    def can_use_attention(params: Any, debug: bool = False) -> bool:
        device = seen_device(params.query)
        if device.type != "cuda":
            return original(params, debug)
        capability = current_machine().gpu(device.index).capability
        asked = Attention(
            params.query,
            params.key,
            params.value,
            params.attn_mask,
            params.dropout,
            params.is_causal,
            params.enable_gqa,
            capability,
        )
        return can_use(kernel, asked)

    return can_use_attention


def _causal_bias(cls: type[torch.Tensor], *size: int) -> torch.Tensor:
    made: torch.Tensor = torch.Tensor._make_subclass(cls, torch.empty(*size))
    return made


def _never_nested(original: Callable[..., bool]) -> Callable[..., bool]:
    return lambda tensor, mask: False if is_virtual(tensor) else original(tensor, mask)


def _encoder_shapes(src: torch.Tensor, *_: Any) -> torch.Tensor:
    return torch.empty_like(src)


def _head_shapes(
    query: torch.Tensor, key: Any, value: Any, embed_dim: int, num_head: int, qkv_weight: Any, qkv_bias: Any,
    proj_weight: torch.Tensor, proj_bias: Any, mask: Any = None, need_weights: bool = True,
    average_attn_weights: bool = True, mask_type: int | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:  # fmt: skip
    batch, tokens = query.shape[:2]
    heads = () if average_attn_weights else (num_head,)
    shares = (batch, *heads, tokens, tokens) if need_weights else (0,)
    return query.new_empty(batch, tokens, proj_weight.size(0)), query.new_empty(shares)


_SHAPES: Mapping[str, Callable[..., Any]] = {
    "_transformer_encoder_layer_fwd": _encoder_shapes,
    "_native_multi_head_attention": _head_shapes,
}
"""Meta kernels of fused layers; torch has had its own since 2.10 and 2.13."""


def _fill(library: Library) -> None:
    for name, kernel in KERNELS.items():
        library.impl(getattr(aten, name).default, kernel, "CPU")  # type: ignore[no-untyped-call]  # torch's own
    for name, kernel in _SHAPES.items():
        if not torch._C._dispatch_has_kernel_for_dispatch_key(f"aten::{name}", "Meta"):
            library.impl(getattr(aten, name).default, kernel, "Meta")  # type: ignore[no-untyped-call]  # torch's own


_kernels = Registration(_fill)
_CHOSEN = "C++ chooses by the tensor's device, which is meta, and not by the GPU of the machine"
_FAST = "the ledger counts what the parts of a fused layer take, as CUDA runs them one by one"
PATCHES = (
    *replaced({_attention: attend}, "C++ would take attention of carriers apart into plain arithmetic"),
    Change(
        f"dispatcher[CPU] of {', '.join(f'aten.{name}' for name in KERNELS)}, "
        f"dispatcher[Meta] of {', '.join(f'aten.{name}' for name in _SHAPES)}",
        _kernels.enter,
        _kernels.leave,
        "arithmetic for tensors on the host; shapes of fused layers where torch has no meta kernel",
        "the kernels of the GPU compute their values on the host, where a build for CPUs has none",
    ),
    Patch("torch._native_multi_head_attention", _multi_head, _FAST),
    Patch("torch._transformer_encoder_layer_fwd", _encoder_layer, _FAST),
    Patch("torch._fused_sdp_choice", _choice, _CHOSEN),
    Patch(
        "torch._nested_tensor_from_mask_left_aligned",
        _never_nested,
        "nested tensors have no meta kernels; encoders keep their padded batch",
    ),
    *(
        Patch(f"torch._C._can_use_{name}_attention", functools.partial(_usable, kernel), _CHOSEN)
        for name, kernel in (
            ("flash", Kernel.FLASH),
            ("mem_efficient", Kernel.EFFICIENT),
            ("cudnn", Kernel.CUDNN),
        )
    ),
    Patch(
        "torch.nn.attention.bias.CausalBias.__new__",
        Constant(_causal_bias),
        "`Tensor`'s own constructor cannot make subclasses under a dispatch mode",
        package="torch.nn.attention.bias",
    ),
)
