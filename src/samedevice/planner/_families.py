"""How the layers of an architecture are built, as far as their memory goes: one row a model type.

A row says what transformers' own `modeling_*.py` of that type does. Rows were read in transformers 5.23 and
are held against the tensors that autograd really saves by `tests/planner/test_planner_activations.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any


class Norm(Enum):
    """What a normalisation keeps for its backward."""

    RMS = "rms"
    """Written in Python in fp32, rounded, then times the weight (`LlamaRMSNorm`)."""
    RMS_WIDE = "rms-wide"
    """Written in Python, times the weight in fp32 and then rounded (`GemmaRMSNorm`, `Olmo2RMSNorm`)."""
    LAYER = "layer"
    """`torch.nn.LayerNorm`: keeps its input, mean and deviation."""


class Activation(Enum):
    """What the nonlinearity keeps."""

    FUSED = "fused"
    """One operator that keeps its input (silu, gelu)."""
    FROM_RESULT = "from-result"
    """One operator that keeps its result (relu)."""
    WRITTEN_OUT = "written-out"
    """Several operators (`NewGELUActivation`)."""


@dataclass(frozen=True, slots=True)
class Family:
    """How one layer is built."""

    norm: Norm = Norm.RMS
    norms: int = 2
    """Over the hidden size, in one layer."""
    head_norm: bool = False
    """Queries and keys are normalised head by head."""
    wide_head_norm: bool = False
    """Queries and keys are normalised over all heads together."""
    gated: bool = True
    fused_gate: bool = False
    """Gate and up projection are one matrix."""
    activation: Activation = Activation.FUSED
    fused_qkv: bool = False
    rotary: bool = True
    """New queries and keys come from rotating: those of a fused projection stay beside them."""
    partial_rotary: bool = False
    """Only a part of each head is rotated and joined to the rest, so attention's result has to be copied into
    order.
    """
    parallel: bool = False
    """Attention and MLP read the same hidden states."""
    one_norm: bool = False
    """Attention and MLP even share one norm's result."""
    eager_attention: bool = False
    """Attention is written out: its scores are kept."""
    dropouts: int = 0
    """Dropouts over the hidden size in one layer."""
    router_keeps: bool = False
    """Mixtral divides the chosen weights by their sum in fp32."""


_LLAMA = Family()
_GPT = Family(
    norm=Norm.LAYER, gated=False, activation=Activation.WRITTEN_OUT, fused_qkv=True, rotary=False, dropouts=2
)

FAMILIES: dict[str, Family] = {
    "llama": _LLAMA,
    "mistral": _LLAMA,
    "qwen2": _LLAMA,
    "qwen3": Family(head_norm=True),
    "qwen2_moe": _LLAMA,
    "qwen3_moe": Family(head_norm=True),
    "mixtral": Family(router_keeps=True),
    "gemma": Family(norm=Norm.RMS_WIDE),
    "gemma2": Family(norm=Norm.RMS_WIDE, norms=4, eager_attention=True),
    "gemma3_text": Family(norm=Norm.RMS_WIDE, norms=4, head_norm=True),
    "olmo2": Family(norm=Norm.RMS_WIDE, wide_head_norm=True),
    "phi3": Family(fused_qkv=True, fused_gate=True, partial_rotary=True),
    "gpt2": _GPT,
    "opt": Family(norm=Norm.LAYER, gated=False, activation=Activation.FROM_RESULT, rotary=False, dropouts=2),
    "gpt_neox": Family(norm=Norm.LAYER, gated=False, fused_qkv=True, partial_rotary=True, parallel=True),
    "phi": Family(
        norm=Norm.LAYER,
        gated=False,
        activation=Activation.WRITTEN_OUT,
        partial_rotary=True,
        parallel=True,
        one_norm=True,
    ),
    "starcoder2": Family(norm=Norm.LAYER, gated=False),
}


@dataclass(frozen=True, slots=True)
class Dimensions:
    """Sizes of a decoder, as element counts."""

    model_type: str
    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    inner: int
    """Width of the MLP; 0 where every layer has experts only."""
    vocabulary: int
    experts: int = 0
    chosen: int = 0
    """Experts that a token goes through."""
    expert_inner: int = 0
    shared_inner: int = 0
    """Width of the expert that every token goes through."""
    dropout: float = 0.0
    softcap: bool = False
    """The last logits go through a tanh (Gemma 2)."""

    @property
    def family(self) -> Family:
        """How its layers are built."""
        return FAMILIES[self.model_type]

    @property
    def queries(self) -> int:
        """Width of all queries of one token."""
        return self.heads * self.head_dim

    @property
    def keys(self) -> int:
        """Width of all keys of one token; the values are as wide."""
        return self.kv_heads * self.head_dim


def estimated_type(config: Mapping[str, Any]) -> str | None:
    """The model type whose formula holds: the configuration's own or that of its `text_config`.

    None where neither has a row.
    """
    kind = config.get("model_type")
    if kind in FAMILIES:
        return str(kind)
    inside = config.get("text_config")
    return estimated_type(inside) if isinstance(inside, Mapping) else None


def dimensions_of(config: Mapping[str, Any]) -> Dimensions | None:
    """The sizes in a transformers configuration; None for a model type without a row."""
    inside = config.get("text_config")
    if config.get("model_type") not in FAMILIES and isinstance(inside, Mapping):
        return dimensions_of(inside)
    kind = config.get("model_type")
    if kind not in FAMILIES:
        return None

    def first(*names: str, default: Any = None) -> Any:
        return next((config[name] for name in names if config.get(name) is not None), default)

    hidden = first("hidden_size", "n_embd")
    heads = first("num_attention_heads", "n_head")
    experts = first("num_experts", "num_local_experts", default=0)
    inner = first("intermediate_size", "ffn_dim", "n_inner", default=4 * hidden if hidden else 0)
    if not hidden or not heads:
        return None
    return Dimensions(
        model_type=str(kind),
        layers=first("num_hidden_layers", "n_layer", default=0),
        hidden=hidden,
        heads=heads,
        kv_heads=first("num_key_value_heads", default=heads),
        head_dim=first("head_dim", default=hidden // heads),
        inner=0 if experts else inner,
        vocabulary=first("vocab_size", default=0),
        experts=experts,
        chosen=first("num_experts_per_tok", default=0),
        expert_inner=first("moe_intermediate_size", default=inner) if experts else 0,
        shared_inner=first("shared_expert_intermediate_size", default=0),
        dropout=first("resid_pdrop", "dropout", "resid_dropout", "residual_dropout", default=0.0),
        softcap=bool(first("final_logit_softcapping", default=0)),
    )
