"""What the fused attention kernels compute, in CPU arithmetic.

So small virtual tensors keep their values.

The kernels of CUDA have no CPU counterpart. While a machine is entered these functions are their CPU kernels:
the engine runs them on the values of small tensors, and the geometry of the results is that of torch's own
meta kernels.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import torch

Tensor = torch.Tensor
aten = torch.ops.aten


_AT_ONCE = 1 << 22
"""Scores that are held at once: small inputs can have many, so rows of queries are worked off in blocks."""


class _Scores:
    """Softmax of the scores of one attention call, block by block, and what its gradients need."""

    def __init__(
        self,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        bias: torch.Tensor | None,
        dropout: float,
        causal: bool,
        scale: float | None,
        seed: int,
        *,
        lower_right: bool = False,
    ) -> None:
        heads = query.size(1)
        self.scale = 1 / math.sqrt(query.size(-1)) if scale is None else scale
        self.query = query.float()
        self.key = key.float().repeat_interleave(heads // key.size(1), 1)
        self.value = value.float().repeat_interleave(heads // value.size(1), 1)
        self._bias = None if bias is None else bias.expand(*bias.shape[:-2], query.size(2), key.size(2))
        self._dropout = dropout
        self._seed = seed
        self._last = (key.size(2) - query.size(2) if lower_right else 0) if causal else None
        self._rows = max(1, _AT_ONCE // max(1, query.size(0) * heads * key.size(2)))

    def _blocks(self) -> Iterator[tuple[slice, torch.Tensor, torch.Tensor, torch.Tensor | None]]:
        """Rows of queries with their scores, their weights, and what dropout makes of those.

        The same in each pass.
        """
        generator = torch.Generator().manual_seed(self._seed)
        for start in range(0, max(1, self.query.size(2)), self._rows):
            rows = slice(start, start + self._rows)
            scores = self.query[:, :, rows] @ self.key.mT * self.scale
            if self._bias is not None:
                scores = scores + self._bias[..., rows, :].float()
            if self._last is not None:
                seen = torch.ones(scores.shape[-2:], dtype=torch.bool).tril(self._last + start)
                scores = scores.masked_fill(~seen, -math.inf)
            # A row without any key: all zeros.
            weights = scores.softmax(-1).nan_to_num(0.0)
            kept = None
            if self._dropout > 0.0:
                drawn = torch.rand(weights.shape, generator=generator)
                kept = (drawn >= self._dropout).float() / (1 - self._dropout if self._dropout < 1 else 1)
            yield rows, scores, weights, kept

    def results(self) -> tuple[torch.Tensor, torch.Tensor]:
        """What attention gives, and the logarithm of each row's sum."""
        outputs, sums = [], []
        for _, scores, weights, kept in self._blocks():
            outputs.append((weights if kept is None else weights * kept) @ self.value)
            sums.append(scores.logsumexp(-1))
        return torch.cat(outputs, 2), torch.cat(sums, 2)

    def gradients(
        self, gradient: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor | None]:
        """Of query, key, value and bias."""
        gradient = gradient.float()
        of_query, of_key, of_value = (
            torch.zeros_like(self.query),
            torch.zeros_like(self.key),
            torch.zeros_like(self.value),
        )
        of_bias = []
        for rows, _, weights, kept in self._blocks():
            own = gradient[:, :, rows]
            of_value += (weights if kept is None else weights * kept).mT @ own
            of_weights = own @ self.value.mT
            if kept is not None:
                of_weights = of_weights * kept
            of_scores = weights * (of_weights - (of_weights * weights).sum(-1, keepdim=True))
            of_query[:, :, rows] = of_scores @ self.key * self.scale
            of_key += of_scores.mT @ self.query[:, :, rows] * self.scale
            if self._bias is not None:
                of_bias.append(of_scores)
        return of_query, of_key, of_value, torch.cat(of_bias, 2) if of_bias else None


def _fill(shape_of: Any, result: torch.Tensor | None) -> Any:
    """`result` with the geometry and type of a meta tensor.

    Longer rows end in infinity, heads that were repeated are summed.
    """
    if shape_of is None or result is None:
        return None
    if shape_of.dim() == 4 and shape_of.size(1) != result.size(1):
        result = result.reshape(result.size(0), shape_of.size(1), -1, *result.shape[2:]).sum(2)
    made = torch.empty_strided(shape_of.size(), shape_of.stride(), dtype=shape_of.dtype)
    if shape_of.shape == result.shape:
        return made.copy_(result)
    made.fill_(math.inf)
    made[..., : result.size(-1)] = result
    return made


def _meta(value: Any) -> Any:
    return value.to("meta") if isinstance(value, Tensor) else value


def _geometry(op: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return op(*[_meta(value) for value in args], **{name: _meta(value) for name, value in kwargs.items()})


def _draw(dropout: float) -> int:
    return int(torch.randint(1 << 31, ()).item()) if dropout > 0.0 else 0


def _seed(like: torch.Tensor, seed: int) -> torch.Tensor:
    return torch.full(like.shape, seed, dtype=torch.int64).to(like.dtype)


def flash(
    query: Any,
    key: Any,
    value: Any,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *rest: Any,
    scale: Any = None,
) -> Any:
    """`aten::_scaled_dot_product_flash_attention`."""
    made = _geometry(
        aten._scaled_dot_product_flash_attention.default,
        (query, key, value, dropout_p, is_causal),
        {"scale": scale},
    )
    seed = _draw(dropout_p)
    scores = _Scores(query, key, value, None, dropout_p, is_causal, scale, seed, lower_right=True)
    states = (_seed(made[6], seed), _seed(made[7], 0), torch.empty(made[8].shape, dtype=made[8].dtype))
    output, sums = scores.results()
    return (_fill(made[0], output), _fill(made[1], sums), *made[2:6], *states)


def flash_backward(
    grad_out: Any, query: Any, key: Any, value: Any, out: Any, logsumexp: Any, cum_seq_q: Any, cum_seq_k:
    Any, max_q: int,
    max_k: int, dropout_p: float, is_causal: bool, philox_seed: Any, philox_offset: Any, *, scale: Any = None,
) -> Any:  # fmt: skip
    """`aten::_scaled_dot_product_flash_attention_backward`."""
    seed = int(philox_seed.flatten()[0].item()) if dropout_p else 0
    found = _Scores(query, key, value, None, dropout_p, is_causal, scale, seed, lower_right=True).gradients(
        grad_out
    )
    return tuple(
        _fill(_meta(torch.empty_like(own)), one) for own, one in zip((query, key, value), found, strict=False)
    )


def efficient(
    query: Any, key: Any, value: Any, attn_bias: Any, compute_log_sumexp: bool, dropout_p: float = 0.0,
    is_causal: bool = False,
    *, scale: Any = None,
) -> Any:  # fmt: skip
    """`aten::_scaled_dot_product_efficient_attention`."""
    op = aten._scaled_dot_product_efficient_attention.default
    given = (query, key, value, attn_bias, compute_log_sumexp, dropout_p, is_causal)
    made = _geometry(op, given, {"scale": scale})
    seed = _draw(dropout_p)
    scores = _Scores(query, key, value, attn_bias, dropout_p, is_causal, scale, seed)
    output, sums = scores.results()
    logsumexp = _fill(made[1], sums) if compute_log_sumexp else torch.empty(made[1].shape)
    return _fill(made[0], output), logsumexp, _seed(made[2], seed), _seed(made[3], 0)


def efficient_backward(
    grad_out: Any, query: Any, key: Any, value: Any, attn_bias: Any, out: Any, logsumexp: Any, philox_seed:
    Any,
    philox_offset: Any, dropout_p: float, grad_input_mask: Any, is_causal: bool = False, *, scale: Any = None,
) -> Any:  # fmt: skip
    """`aten::_scaled_dot_product_efficient_attention_backward`."""
    op = aten._scaled_dot_product_efficient_attention_backward.default
    given = (
        grad_out, query, key, value, attn_bias, out, logsumexp, philox_seed, philox_offset, dropout_p,
        grad_input_mask, is_causal,
    )  # fmt: skip
    made = _geometry(op, given, {"scale": scale})
    seed = int(philox_seed.item()) if dropout_p else 0
    found = _Scores(query, key, value, attn_bias, dropout_p, is_causal, scale, seed).gradients(grad_out)
    return tuple(_fill(shape, one) for shape, one in zip(made, found, strict=True))


def cudnn(
    query: Any, key: Any, value: Any, attn_bias: Any, compute_log_sumexp: bool, dropout_p: float = 0.0,
    is_causal: bool = False,
    return_debug_mask: bool = False, *, scale: Any = None,
) -> Any:  # fmt: skip
    """`aten::_scaled_dot_product_cudnn_attention`."""
    op = aten._scaled_dot_product_cudnn_attention.default
    given = (query, key, value, attn_bias, compute_log_sumexp, dropout_p, is_causal, return_debug_mask)
    made = _geometry(op, given, {"scale": scale})
    seed = _draw(dropout_p)
    scores = _Scores(query, key, value, attn_bias, dropout_p, is_causal, scale, seed)
    output, sums = scores.results()
    return (
        _fill(made[0], output),
        _fill(made[1], sums.view(made[1].shape)),  # newer releases have a last dimension of 1
        *made[2:6],
        _seed(made[6], seed),
        _seed(made[7], 0),
        None,
    )


def cudnn_backward(
    grad_out: Any, query: Any, key: Any, value: Any, out: Any, logsumexp: Any, philox_seed: Any,
    philox_offset: Any,
    attn_bias: Any, cum_seq_q: Any, cum_seq_k: Any, max_q: int, max_k: int, dropout_p: float, is_causal:
    bool, *, scale: Any = None,
) -> Any:  # fmt: skip
    """`aten::_scaled_dot_product_cudnn_attention_backward`."""
    seed = int(philox_seed.item()) if dropout_p else 0
    found = _Scores(query, key, value, attn_bias, dropout_p, is_causal, scale, seed).gradients(grad_out)
    return tuple(
        _fill(_meta(torch.empty_like(own)), one) for own, one in zip((query, key, value), found, strict=False)
    )


KERNELS = {
    "_scaled_dot_product_flash_attention": flash,
    "_scaled_dot_product_flash_attention_backward": flash_backward,
    "_scaled_dot_product_efficient_attention": efficient,
    "_scaled_dot_product_efficient_attention_backward": efficient_backward,
    "_scaled_dot_product_cudnn_attention": cudnn,
    "_scaled_dot_product_cudnn_attention_backward": cudnn_backward,
}
"""CPU kernels by the name of the operator."""
