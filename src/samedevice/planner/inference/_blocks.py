"""A model as a row of blocks: what each of them keeps, and needs while it runs, in bytes. Needs no torch."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
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
    seconds: int | None = None
    """Sound of a sequence, for a model that reads sound in the place of a prompt; None for a usual length."""

    def with_number(self, axis: Literal["context", "batch"], number: int) -> Workload:
        """The same with another length of the prompts, or other sequences at once."""
        return replace(self, context=number) if axis == "context" else replace(self, batch=number)

    @property
    def tokens(self) -> int:
        """Tokens of a sequence at its end; the last one that is made is not read again."""
        return self.context + self.new_tokens - 1

    @property
    def nbytes(self) -> int:
        """Bytes of the ids of all tokens, and of their mask.

        Libraries look into the mask, whatever its size: one that hides nothing is left out.
        """
        return 8 * self.batch * (self.context + self.new_tokens)


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
    """Needed when all caches of the GPU are full already: by a member that runs later than the block."""
    home_late: int = 0
    """The same on the GPU of the first block, with the logits of all."""
    idle: bool = False
    """No module of it runs: a parameter that a container's code uses, or what this work does not need."""

    @property
    def kept(self) -> int:
        """Bytes that it holds from the beginning to the end."""
        return self.weights + self.cache

    def with_more(self, amount: int) -> Block:
        """The same that needs so many bytes more while it runs."""
        return replace(
            self,
            prefill=self.prefill + amount,
            decode=self.decode + amount,
            home_prefill=self.home_prefill + amount,
            home_decode=self.home_decode + amount,
        )


def merged(members: Sequence[Block], weights: int) -> Block:
    """Blocks that stay together as one, which holds so many bytes of weights; in the order of execution.

    It has the place of the first one that runs; the others come to run there late in a pass.
    """
    leading = next((block for block in members if not block.idle), members[0])
    others = [block for block in members if block is not leading]
    return replace(
        leading,
        names=tuple(name for block in members for name in block.names),
        weights=weights,
        prompt_cache=sum(block.prompt_cache for block in members),
        cache=sum(block.cache for block in members),
        decode=max(block.decode for block in members),
        home_decode=max(block.home_decode for block in members),
        late=max((max(block.prefill, block.late) for block in others), default=leading.late),
        home_late=max(
            (max(block.home_prefill, block.home_late) for block in others), default=leading.home_late
        ),
        matrices=leading.matrices if not others else 0,
    )


def taught(
    blocks: Sequence[Block], together: Collection[frozenset[str]], more: Mapping[str, int]
) -> tuple[Block, ...]:
    """The row of blocks after what trials showed.

    Args:
        blocks: in the order of execution.
        together: names of modules that must be on one GPU.
        more: bytes that the block with this module needs besides.
    """
    groups = [{position} for position in range(len(blocks))]
    for names in together:
        touched = [group for group in groups if any(names & set(blocks[each].names) for each in group)]
        groups = [group for group in groups if group not in touched] + [set().union(*touched)]
    rows = []
    for group in filter(None, groups):
        members = [blocks[position] for position in sorted(group)]
        running = [position for position in sorted(group) if not blocks[position].idle]
        block = merged(members, sum(each.weights for each in members)) if len(members) > 1 else members[0]
        amount = max(more.get(name, 0) for name in block.names)
        rows.append((min(running or group), block.with_more(amount)))
    first, *others = [block for _, block in sorted(rows, key=lambda row: row[0])]
    if blocks[0].idle and first.names[0] != blocks[0].names[0]:
        # What the caller holds is where the first block is, whichever that is.
        first = replace(
            first,
            home_prefill=max(first.home_prefill, blocks[0].home_prefill),
            home_decode=max(first.home_decode, blocks[0].home_decode),
            home_late=max(first.home_late, blocks[0].home_late),
        )
    return (first, *others)


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
            late = max(late, block.late if start else block.home_late)
            last = max(last, block.decode if start else block.home_decode)
            row.append(weights + max(reading, prompt + late, cache + last))
        return row
