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

_CHINESE = """申请的显存在该设备上放不下。

## 发生了什么

虚拟设备账本上剩余的显存少于申请的数量。

## 为什么会失败

权重、激活、梯度和优化器状态加起来超过了这块 GPU；报告会列出每个设备上当时占用了多少。

## 示例

```python
torch.empty(100 << 30, dtype=torch.uint8, device="cuda:0")
```

## 应当这样写

```bash
samedevice run --machine 4x24GB script.py     # 看看峰值需要多少
```

## 修复是否安全

没有改动任何东西。

## 已知局限

碎片和 CUDA 各库自己的显存只是估计，见[局限](../limits.md)。

## 参考

- [机器](../machines.md)
"""

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
    page={"en": __doc__ or "", "zh": _CHINESE},
    kind=EventKind.OUT_OF_MEMORY,
)
