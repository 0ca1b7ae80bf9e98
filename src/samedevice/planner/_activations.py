"""Bytes that autograd keeps between forward and backward, and what a backward needs on top.

Must guarantee: each term names the operator that keeps it. All sizes are bytes for one token, unless a name
says otherwise. Which tensor an operator keeps is written in torch's `derivatives.yaml` (`mul` keeps its other
factor, `silu` its input, `relu` its result, `_log_softmax` its result, flash attention queries, keys, values,
result and the logarithms of its sums); what transformers chains together is read from its `modeling_*.py`.
"""

from __future__ import annotations

from dataclasses import dataclass

from samedevice.planner._families import Activation, Dimensions, Norm
from samedevice.planner._settings import Lora, Tuning

FP32 = 4
ROLES: dict[str, tuple[str, ...]] = {
    "q": ("q_proj",),
    "k": ("k_proj",),
    "v": ("v_proj",),
    "qkv": ("qkv_proj", "query_key_value", "c_attn"),
    "o": ("o_proj", "out_proj", "dense", "c_proj"),
    "gate": ("gate_proj",),
    "up": ("up_proj", "fc1", "c_fc", "dense_h_to_4h"),
    "gate_up": ("gate_up_proj",),
    "down": ("down_proj", "fc2", "c_proj", "dense_4h_to_h"),
}
"""What the matrices of a layer are called in transformers' models."""
_INDEX = 8
"""An int64."""


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """The types in which a forward computes, as bytes of one element."""

    compute: int
    """Matrix products and attention."""
    stream: int
    """The hidden states between the layers: fp32 under autocast with fp32 weights."""

    autocast: bool = False
    """Whether inputs of matrix products are cast, once for each product."""


@dataclass(frozen=True, slots=True)
class LayerMemory:
    """One layer, per token."""

    kept: int
    """Everything that autograd keeps."""
    early: int
    """Of it, what is left when the backward has come through the MLP."""
    boundary: int
    """The layer's input, all that checkpointing keeps."""
    working: int
    """Gradients that a backward holds at once while all of `kept` still is there."""


def layer_memory(
    sizes: Dimensions, numbers: Arithmetic, tuning: Tuning, context: int, *, efficient: bool = False
) -> LayerMemory:
    """What one decoder layer keeps.

    `context` matters to attention that is written out: its scores are kept. `efficient`: the memory-efficient
    kernel runs, as for fp32.
    """
    reader = _Reader(sizes, numbers, tuning)
    mlp = reader.mlp()
    kept = reader.norms() + reader.attention(context) + mlp + reader.dropouts()
    widest = max(sizes.inner, sizes.shared_inner, sizes.chosen * sizes.expert_inner)
    working = numbers.stream * sizes.hidden + 2 * numbers.compute * widest
    if reader.by_arithmetic:  # gradients of the softmax's result and of the scores, and a product of both
        working = max(working, 3 * numbers.compute * sizes.heads * context)
    return LayerMemory(kept, kept - mlp, numbers.stream * sizes.hidden, working)


class _Reader:
    """Adds up one layer."""

    def __init__(self, sizes: Dimensions, numbers: Arithmetic, tuning: Tuning) -> None:
        self.sizes = sizes
        self.family = sizes.family
        self.compute = numbers.compute
        self.stream = numbers.stream
        self.autocast = numbers.autocast
        self.lora = tuning if isinstance(tuning, Lora) else None

    @property
    def by_arithmetic(self) -> bool:
        """Whether CUDA has no fused attention: for grouped heads in fp32."""
        return (
            self.compute == FP32
            and self.sizes.kv_heads != self.sizes.heads
            and not self.family.eager_attention
        )

    def norm(self, width: int, rows: int = 1, *, narrow: bool = False) -> int:
        """One normalisation of `rows` vectors; `narrow` when its input has the compute type."""
        trained = self.lora is None
        size = self.compute if narrow else self.stream
        if self.family.norm is Norm.LAYER:
            return rows * ((FP32 if self.autocast else size) * width + 2 * FP32)
        wide = self.family.norm is Norm.RMS_WIDE
        product = (FP32 if wide else size) * width if trained else 0
        return rows * (FP32 * width + FP32 + product)

    def norms(self) -> int:
        sizes, family = self.sizes, self.family
        number = 1 if family.one_norm else family.norms
        total = number * self.norm(sizes.hidden)
        if family.parallel and not family.one_norm:
            total -= self.stream * sizes.hidden  # both keep the same input
        if family.head_norm:
            total += self.norm(sizes.head_dim, sizes.heads + sizes.kv_heads, narrow=True)
        if family.wide_head_norm:
            total += self.norm(sizes.queries, narrow=True) + self.norm(sizes.keys, narrow=True)
        return total

    def inputs(self, width: int, roles: tuple[str, ...], *, shared: bool = True, cast: bool = True) -> int:
        """What matrix products with one common input keep of it.

        `shared`: nobody else keeps it; `cast`: autocast has to cast it.
        """
        if self.lora is None:
            if self.autocast and cast:
                return len(roles) * self.compute * width
            return self.compute * width if shared else 0
        number = sum(self.lora.adapts(*ROLES[role]) for role in roles)
        size = self.compute if self.autocast else self.lora.adapter_bytes(self.compute)
        # peft casts the input to the adapter's type, once for each; what the first matrix makes is kept for
        # the second.
        cast_each = self.lora.adapter_bytes(self.compute) != self.compute
        copies = number if cast_each or self.lora.dropout else int(number > 0 and shared)
        return copies * size * width + number * (size * self.lora.rank + (width if self.lora.dropout else 0))

    def attention(self, context: int) -> int:
        sizes, family = self.sizes, self.family
        total = self.inputs(sizes.hidden, ("qkv",) if family.fused_qkv else ("q", "k", "v"))
        queries, keys = self.compute * sizes.queries, self.compute * sizes.keys
        if family.eager_attention:
            # Scores twice (tanh's result, the rounded softmax) and softmax in fp32; queries and keys as
            # matmul took them, repeated values.
            total += sizes.heads * context * (2 * self.compute + FP32) + 4 * queries
        elif self.by_arithmetic:
            # The softmax's result; queries, repeated keys and values as matmul took them; the result.
            total += sizes.heads * context * self.compute + 4 * queries
        else:
            total += queries + 2 * keys + queries + FP32 * sizes.heads  # q, k, v, result, logarithms of sums
            if family.fused_qkv and family.rotary:
                total += queries + keys  # the projection that v is a part of
            total += queries if family.partial_rotary else 0
        total += self.inputs(sizes.queries, ("o",), shared=False, cast=False)
        return total

    def activation(self, width: int) -> int:
        """What the nonlinearity itself keeps; its result is for the next operator to keep."""
        size = self.compute
        if self.family.activation is Activation.FROM_RESULT:
            return size * width
        if self.family.activation is Activation.WRITTEN_OUT:
            # x, and three inner results, of which autocast computes in fp32 what comes after the power
            return (size + 3 * (FP32 if self.autocast else size)) * width
        return size * width

    def mlp(self) -> int:
        sizes, family = self.sizes, self.family
        if sizes.experts:
            return self.experts()
        total = self.activation(sizes.inner)
        if family.gated:
            total += self.inputs(sizes.hidden, ("gate_up",) if family.fused_gate else ("gate", "up"))
            total += 2 * self.compute * sizes.inner  # the activation's result and up, which are multiplied
            return total + self.inputs(sizes.inner, ("down",), cast=False)
        if not (family.one_norm and self.lora is None and not self.autocast):
            total += self.inputs(sizes.hidden, ("up",))
        wide = self.autocast and family.activation is Activation.WRITTEN_OUT
        return total + self.inputs(
            sizes.inner, ("down",), shared=family.activation is not Activation.FROM_RESULT, cast=wide
        )

    def experts(self) -> int:
        """Source: `transformers/integrations/moe.py`, grouped products.

        Autocast leaves them in the stream's type.
        """
        sizes = self.sizes
        size, rows = self.stream, sizes.chosen
        total = FP32 * sizes.experts + _INDEX * rows + 3 * _INDEX * rows  # router
        if self.lora is None:
            total += self.compute * sizes.hidden if self.autocast or not sizes.shared_inner else 0
        if self.family.router_keeps:
            total += FP32 + FP32 * rows
        total += (FP32 if self.family.router_keeps else self.compute) * rows
        total += rows * size * (sizes.hidden + 3 * sizes.expert_inner)  # gate and up, activation, results
        if self.lora is None:
            total += (
                rows * size * (sizes.hidden + sizes.expert_inner)
            )  # inputs of the products, for the gradients of their weights
        if sizes.shared_inner:
            total += self.inputs(sizes.hidden, ("gate", "up"))
            total += self.compute * (3 * sizes.shared_inner + sizes.hidden + 1)
            total += self.inputs(sizes.shared_inner, ("down",), cast=False)
            total += (
                self.compute * sizes.hidden if self.autocast and self.lora is None else 0
            )  # the gate's own cast
        return total

    def dropouts(self) -> int:
        """`native_dropout` keeps its mask, a byte an element."""
        return self.family.dropouts * self.sizes.hidden if self.sizes.dropout else 0


@dataclass(frozen=True, slots=True)
class EndMemory:
    """What is outside the repeated layers, per token."""

    kept: int
    """Kept besides the loss: last norm, input of the head, indices."""
    logits: int
    """As the head makes them."""
    loss_kept: int
    """What the loss keeps: the logarithm of the softmax, in fp32."""
    forward_peak: int
    """Held at once while the loss is computed."""
    backward_peak: int
    """Held at once while the loss goes backward: its kept tensor and two gradients in fp32."""


def end_memory(sizes: Dimensions, numbers: Arithmetic, tuning: Tuning) -> EndMemory:
    """Embedding, last norm, head and the loss of transformers.

    In `ForCausalLMLoss` logits become fp32, then comes cross entropy.
    """
    reader = _Reader(sizes, numbers, tuning)
    head = 0 if reader.lora is not None else numbers.compute * sizes.hidden
    kept = reader.norm(sizes.hidden) + head + 3 * _INDEX
    kept += sizes.hidden if sizes.dropout and sizes.family.dropouts else 0
    row = FP32 * sizes.vocabulary
    logits = numbers.compute * sizes.vocabulary
    softcap = 2 * logits if sizes.softcap else 0
    wide = row if numbers.compute < FP32 else 0
    return EndMemory(
        kept, logits, row + softcap // 2, logits + wide + row + softcap // 2, 3 * row + softcap // 2
    )
