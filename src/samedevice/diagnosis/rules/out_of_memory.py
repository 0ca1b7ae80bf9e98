"""An allocation does not fit on its device.

## What happens

The ledger of the virtual device has less free memory than is asked for.

## Why it fails

Weights, activations, gradients and optimizer state together exceed the GPU; the finding lists what each
device held.

## Example

```python
torch.empty(100 << 30, dtype=torch.uint8, device="cuda:0")
```

## Use instead

```bash
samedevice run --machine 4x24GB script.py     # see what the peak needs
```

## Fix safety

Nothing is changed.

## Known limits

Fragmentation and memory of CUDA libraries are estimates; see [Limits](../limits.md).

## References

- [Machines](../machines.md)
"""

# ruff: noqa: RUF001 # sentences are whole lines, and Chinese has its own punctuation

from __future__ import annotations

from samedevice.diagnosis._rule import Rule
from samedevice.events import EventKind
from samedevice.messages import Message

RULE = Rule(
    code="SD104",
    name="out-of-memory",
    title=Message(
        "an allocation does not fit",
        "显存放不下",
    ),
    meaning=Message(
        "more was asked for than was free on the device",
        "申请的显存多于设备的空闲显存",
    ),
    cure=Message(
        "spread the model, shorten the batch or the context, or take larger GPUs",
        "把模型分散到更多 GPU、减小 batch 或上下文长度，或换更大的 GPU",
    ),
    page=__doc__ or "",
    kind=EventKind.OUT_OF_MEMORY,
)
