"""A small GPT-2 in plain PyTorch, as books build it, and training steps of it.

What differs between implementations decides their memory: attention that is written out keeps its scores, a
LayerNorm or a GELU that is written out keeps every inner result.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional


@dataclass(frozen=True, slots=True)
class Gpt:
    """How the model is written, and its sizes."""

    layers: int
    hidden: int
    heads: int
    vocabulary: int
    context: int
    written_out_attention: bool
    written_out_layers: bool
    """LayerNorm and GELU as formulas in place of torch's operators."""
    dropout: float = 0.1


class _Norm(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(width))
        self.shift = nn.Parameter(torch.zeros(width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        mean = x.mean(dim=-1, keepdim=True)
        variance = x.var(dim=-1, keepdim=True, unbiased=False)
        return self.scale * ((x - mean) / torch.sqrt(variance + 1e-5)) + self.shift


class _Gelu(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * torch.pow(x, 3))))


class _Attention(nn.Module):
    def __init__(self, sizes: Gpt) -> None:
        super().__init__()
        self.sizes = sizes
        self.query, self.key, self.value = (
            nn.Linear(sizes.hidden, sizes.hidden, bias=False) for _ in range(3)
        )
        self.out = nn.Linear(sizes.hidden, sizes.hidden)
        self.dropout = nn.Dropout(sizes.dropout)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, tokens, width = x.shape
        parts = (self.query(x), self.key(x), self.value(x))
        query, key, value = (part.view(batch, tokens, self.sizes.heads, -1).transpose(1, 2) for part in parts)
        if self.sizes.written_out_attention:
            scores = query @ key.transpose(2, 3)
            future = torch.triu(torch.ones(tokens, tokens, dtype=torch.bool, device=x.device), diagonal=1)
            scores.masked_fill_(future, -torch.inf)
            weights = self.dropout(torch.softmax(scores / key.shape[-1] ** 0.5, dim=-1))
            mixed = weights @ value
        else:
            mixed = functional.scaled_dot_product_attention(
                query, key, value, dropout_p=self.sizes.dropout if self.training else 0.0, is_causal=True
            )
        made: torch.Tensor = self.out(mixed.transpose(1, 2).reshape(batch, tokens, width))
        return made


class _Layer(nn.Module):
    def __init__(self, sizes: Gpt) -> None:
        super().__init__()
        norm = _Norm if sizes.written_out_layers else nn.LayerNorm
        self.first, self.second = norm(sizes.hidden), norm(sizes.hidden)
        self.attention = _Attention(sizes)
        self.mlp = nn.Sequential(
            nn.Linear(sizes.hidden, 4 * sizes.hidden),
            _Gelu() if sizes.written_out_layers else nn.GELU(approximate="tanh"),
            nn.Linear(4 * sizes.hidden, sizes.hidden),
        )
        self.dropout = nn.Dropout(sizes.dropout)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.dropout(self.attention(self.first(x)))
        made: torch.Tensor = x + self.dropout(self.mlp(self.second(x)))
        return made


class _Model(nn.Module):
    def __init__(self, sizes: Gpt) -> None:
        super().__init__()
        self.tokens = nn.Embedding(sizes.vocabulary, sizes.hidden)
        self.places = nn.Embedding(sizes.context, sizes.hidden)
        self.dropout = nn.Dropout(sizes.dropout)
        self.layers = nn.Sequential(*(_Layer(sizes) for _ in range(sizes.layers)))
        self.norm = (_Norm if sizes.written_out_layers else nn.LayerNorm)(sizes.hidden)
        self.head = nn.Linear(sizes.hidden, sizes.vocabulary, bias=False)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        places = self.places(torch.arange(ids.shape[1], device=ids.device))
        made: torch.Tensor = self.head(self.norm(self.layers(self.dropout(self.tokens(ids) + places))))
        return made


def _loss(model: nn.Module, ids: torch.Tensor) -> torch.Tensor:
    """A function of its own, so that nothing but autograd holds the logits."""
    logits = model(ids)
    return functional.cross_entropy(logits.flatten(0, 1), ids.flatten())


def take_steps(sizes: Gpt, batch: int, dtype: torch.dtype, *, fused: bool, steps: int = 2) -> None:
    """Train the model on the current GPU with AdamW, and read a sample without gradients."""
    with torch.device("cuda"):
        model = _Model(sizes).to(dtype)
    optimizer = torch.optim.AdamW(model.parameters(), fused=fused)
    for _ in range(steps):
        ids = torch.zeros(batch, sizes.context, dtype=torch.long, device="cuda")
        optimizer.zero_grad()
        loss = _loss(model, ids)
        loss.backward()
        optimizer.step()
    model.eval()
    with torch.no_grad():
        model(ids[:1])
