"""Copy patterns from GPU to GPU to host and compare every byte; one line of JSON for each pair.

Run as a program with the arguments SECONDS BYTES. Must guarantee: a result is printed as soon as it is known,
so that a GPU that hangs hides no other; a copy that never happened is not taken for a good one, since each
pair and each round has bytes of its own and the destination is filled with others before.
"""

from __future__ import annotations

import importlib
import json
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

Copy = Callable[[Any, Any], object]
"""Fills its first tensor with the bytes of its second."""
_FIXED = (0x00, 0xFF, 0xAA, 0x55)


def main(arguments: list[str]) -> None:
    """Test every pair within the time."""
    seconds, size = float(arguments[0]), int(arguments[1])
    torch = importlib.import_module("torch")  # here alone: this file is a process of its own
    try:
        count = torch.cuda.device_count()
        if not count:
            _tell({"trouble": "torch.cuda.device_count() is 0"})
            return
        for result in tested(torch, count, size, time.monotonic() + seconds):
            _tell(result)
        _tell({"done": True})
    except RuntimeError as error:  # what CUDA raises is the answer
        _tell({"trouble": f"{type(error).__name__}: {error}"})


def tested(
    torch: Any, count: int, size: int, until: float, copy: Copy | None = None
) -> Iterator[dict[str, Any]]:
    """The result of each pair; of a GPU with itself it is the way to it and back."""
    pairs = [(one, one) for one in range(count)]
    pairs += [(one, other) for one in range(count) for other in range(count) if one != other]
    for number, (one, other) in enumerate(pairs):
        if time.monotonic() > until:
            yield {"pair": [one, other], "skipped": True}
            continue
        started = time.monotonic()
        wrong, first = 0, None
        for pattern in _patterns(torch, size, number):
            arrived = _round(torch, pattern, one, other, copy or _copy)
            unequal = (arrived != pattern).nonzero()
            if len(unequal):
                wrong += len(unequal)
                first = int(unequal[0]) if first is None else first
        yield {
            "pair": [one, other],
            "bytes": size * (len(_FIXED) + 2),
            "wrong": wrong,
            "first": first,
            "seconds": round(time.monotonic() - started, 3),
        }


def _patterns(torch: Any, size: int, number: int) -> Iterator[Any]:
    """Bytes that no other pair has: fixed ones with the pair's number in front, counted ones, random ones."""
    for value in _FIXED:
        pattern = torch.full((size,), value, dtype=torch.uint8)
        pattern[: min(size, 8)] = torch.tensor([number % 251] * min(size, 8), dtype=torch.uint8)
        yield pattern
    yield (torch.arange(size, dtype=torch.int64) * 31 + number).remainder(251).to(torch.uint8)
    generator = torch.Generator().manual_seed(number)
    yield torch.randint(0, 256, (size,), dtype=torch.uint8, generator=generator)


def _round(torch: Any, pattern: Any, one: int, other: int, copy: Copy) -> Any:
    """The pattern after its way: host, one GPU, the other, host."""
    first = pattern.to(f"cuda:{one}")
    if other == one:
        return first.cpu()
    second = (~pattern).to(f"cuda:{other}")
    copy(second, first)
    torch.cuda.synchronize(one)
    torch.cuda.synchronize(other)
    return second.cpu()


def _copy(destination: Any, source: Any) -> None:
    destination.copy_(source)


def _tell(result: dict[str, Any]) -> None:
    print(json.dumps(result), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
