"""Processes that share a GPU need more memory than it has.

## What happens

Several processes of a run used the same GPU at the same time. Each fits alone; the sum of their peaks does
not.

## Why it fails

A process keeps what it held at its peak: torch's allocator returns nothing to the GPU by itself. The process
that asks last gets `CUDA out of memory`, although its own use is small.

## Example

```python
model = Model().cuda()                                # every rank: cuda:0
```

## Use instead

```python
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
model = Model().cuda()
```

## Fix safety

Safe.

## Known limits

Found when the run is over, so no statement is named. Peaks are added of processes whose lives overlapped; a
process that gives memory back with `torch.cuda.empty_cache()` before another one needs it is counted all the
same. What CUDA itself takes for each process (some hundred MiB) is not counted.

## References

- [Memory management of torch](https://docs.pytorch.org/docs/stable/notes/cuda.html#memory-management)
"""

# ruff: noqa: RUF001 # sentences are whole lines, and Chinese has its own punctuation

from __future__ import annotations

from samedevice.diagnosis._rule import Rule
from samedevice.events import EventKind
from samedevice.messages import Message

RULE = Rule(
    code="SD110",
    name="gpu-shared-beyond-its-memory",
    title=Message(
        "processes on one GPU need more memory than it has",
        "同一块 GPU 上的进程需要的显存超过它的总量",
    ),
    meaning=Message(
        "several processes used one GPU at the same time, and the sum of their peaks is above its memory",
        "多个进程同时使用同一块 GPU，它们的显存峰值之和超过了它的总量",
    ),
    cure=Message(
        "give each process a GPU of its own, or let each need less",
        "让每个进程使用自己的 GPU，或减少每个进程的显存",
    ),
    page=__doc__ or "",
    kind=EventKind.SHARED_GPU,
)
