"""A model as a row of blocks: what each of them keeps, and needs while it runs, in bytes. Needs no torch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Literal


@dataclass(frozen=True, slots=True)
class Workload:
    """What a model is to do: continue prompts, all of them together."""

    batch: int = 1
    context: int = 2048
    """Tokens of a prompt, with those of its pictures."""
    new_tokens: int = 128
    images: int = 0
    """Pictures of a sequence."""
    image_size: tuple[int, int] | None = None
    """Width and height of each; None for a usual one."""

    def with_number(self, axis: Literal["context", "batch"], number: int) -> Workload:
        """The same with another length of the prompts, or other sequences at once."""
        return replace(self, context=number) if axis == "context" else replace(self, batch=number)

    @property
    def tokens(self) -> int:
        """Tokens of a sequence at its end; the last one that is made is not read again."""
        return self.context + self.new_tokens - 1


@dataclass(frozen=True, slots=True)
class Block:
    """What stays together on one GPU: a layer, an embedding, several modules that share a weight."""

    names: tuple[str, ...]
    """Keys of a device map; several where they share a weight."""
    kind: str
    """Class of the first one."""
    weights: int
    """Parameters and buffers; shared ones once."""
    prompt_cache: int = 0
    """What the cache holds of it after the prompt."""
    cache: int = 0
    """The same after the last token."""
    prefill: int = 0
    """Needed while it reads the prompt, beyond weights and caches of what ran before it."""
    decode: int = 0
    """Needed while it reads the last token, beyond weights and caches."""
    home_prefill: int = 0
    """The same on the GPU of the first block, where the ids, masks and embeddings of all are held."""
    home_decode: int = 0
    matrices: int = 0
    """Part of the weights: matrices of linear layers, which quantization makes smaller."""
    late: int = 0
    """Needed there at the end of a pass: by a head that shares its weight with the embedding, for logits."""

    @property
    def kept(self) -> int:
        """Bytes that it holds from the beginning to the end."""
        return self.weights + self.cache


@dataclass(frozen=True, slots=True)
class Part:
    """What one GPU holds of a plan; bytes."""

    weights: int
    cache: int
    working: int
    """The most that is needed at once beyond them."""

    @property
    def total(self) -> int:
        """All of it."""
        return self.weights + self.cache + self.working


class Loads:
    """Peaks of a GPU that holds the blocks from one to before another.

    Must guarantee: a longer run of blocks never needs less, which the search for the best division relies on.
    """

    def __init__(self, blocks: Sequence[Block]) -> None:
        self.blocks = tuple(blocks)
        self._rows = [self._row(start) for start in range(len(self.blocks))]
        self._weights = list(accumulate((block.weights for block in self.blocks), initial=0))
        self._caches = list(accumulate((block.cache for block in self.blocks), initial=0))

    def __len__(self) -> int:
        return len(self.blocks)

    def peak(self, start: int, stop: int) -> int:
        """The most bytes at once; 0 for no blocks."""
        return self._rows[start][stop - start - 1] if stop > start else 0

    def kept(self, start: int, stop: int) -> int:
        """Weights and caches at the end."""
        return self._weights[stop] - self._weights[start] + self._caches[stop] - self._caches[start]

    def part(self, start: int, stop: int) -> Part:
        """The peak, and what of it is what."""
        weights = self._weights[stop] - self._weights[start]
        cache = self._caches[stop] - self._caches[start]
        return Part(weights, cache, max(self.peak(start, stop) - weights - cache, 0))

    def _row(self, start: int) -> list[int]:
        weights = prompt = cache = reading = late = last = 0
        row = []
        for block in self.blocks[start:]:
            weights += block.weights
            reading = max(reading, prompt + (block.prefill if start else block.home_prefill))
            prompt += block.prompt_cache
            cache += block.cache
            late = max(late, block.late)
            last = max(last, block.decode if start else block.home_decode)
            row.append(weights + max(reading, prompt + late, cache + last))
        return row
