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

from __future__ import annotations

from samedevice.diagnosis._rule import Rule
from samedevice.events import EventKind

RULE = Rule(
    code="SD104",
    name="out-of-memory",
    title={
        "en": "an allocation does not fit",
        "zh": "显存放不下",
    },
    meaning={
        "en": "more was asked for than was free on the device",
        "zh": "申请的显存多于设备的空闲显存",
    },
    cure={
        "en": "spread the model, shorten the batch or the context, or take larger GPUs",
        "zh": "把模型分散到更多 GPU、减小 batch 或上下文长度，或换更大的 GPU",
    },
    sentences={
        "headline": {
            "en": "{amount} more does not fit on {devices}",
            "zh": "{devices} 放不下再申请的 {amount}",
        },
        "why": {
            "en": "more was asked for than was free on the device at that moment",
            "zh": "申请的显存多于该设备当时的空闲显存",
        },
    },
    page=__doc__ or "",
    kind=EventKind.OUT_OF_MEMORY,
)
