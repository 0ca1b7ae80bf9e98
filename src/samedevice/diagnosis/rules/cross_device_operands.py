"""An operator got tensors on devices that its CUDA kernel refuses to mix.

## What happens

On hardware it raises "Expected all tensors to be on the same device". Under `samedevice run` the operand is
moved and the script goes on, so that one run shows all.

## Why it fails

A CUDA kernel reads memory of one device. Only 0-dim host scalars, and index tensors on the host, are exempt.

## Example

```python
a = torch.ones(2, device="cuda:0")
b = torch.ones(2, device="cuda:1")
a + b
```

## Use instead

```python
a + b.to(a.device)
```

## Fix safety

Which operand to move, and where, is what the cause of the finding says.

## Known limits

The failing statement is often not the faulty one; read where the operands were made and moved.

## References

- [How it works](../how-it-works.md)
"""

from __future__ import annotations

from samedevice.diagnosis._rule import Rule
from samedevice.events import EventKind

_CHINESE = """算子收到的张量分布在 CUDA 内核不允许混用的设备上。

## 发生了什么

在真实硬件上会报 “Expected all tensors to be on the same device”。在 `samedevice run` 下，操作数会被移过
去，脚本继续执行，因此一次运行就能看到全部问题。

## 为什么会失败

一个 CUDA 内核只读一个设备上的内存。例外只有 CPU 上的 0 维标量，以及 CPU 上的索引张量。

## 示例

```python
a = torch.ones(2, device="cuda:0")
b = torch.ones(2, device="cuda:1")
a + b
```

## 应当这样写

```python
a + b.to(a.device)
```

## 修复是否安全

该移动哪个操作数、移到哪里，由报告中的“根源”说明。

## 已知局限

出错的语句往往不是写错的语句；请看各个操作数在哪里创建、在哪里移动。

## 参考

- [工作原理](../how-it-works.md)
"""

RULE = Rule(
    code="SD101",
    name="cross-device-operands",
    title={
        "en": "operands are on several devices",
        "zh": "操作数分布在多个设备上",
    },
    meaning={
        "en": "an operator got tensors that its CUDA kernel refuses to mix",
        "zh": "算子收到了 CUDA 内核不允许混用的张量",
    },
    cure={
        "en": "find which operand is in the wrong place: the cause of the finding names it",
        "zh": "找出放错位置的操作数：报告中的根源会指出它",
    },
    sentences={
        "headline": {"en": "{op} got operands on {devices}", "zh": "{op} 的操作数分别在 {devices} 上"},
        "why": {
            "en": "{op} needs all operands on one device; CUDA moves none of them there by itself",
            "zh": "{op} 要求所有操作数在同一设备上；CUDA 不会自动移动它们",
        },
    },
    page={"en": __doc__ or "", "zh": _CHINESE},
    kind=EventKind.MISMATCH,
)
