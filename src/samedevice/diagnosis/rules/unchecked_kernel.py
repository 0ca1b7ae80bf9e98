"""A kernel that checks nothing got tensors on several devices.

## What happens

Hardware raises no error: it computes wrong results or makes an illegal access.

## Why it fails

A few CUDA kernels dereference what they are given.

## Example

```python
torch._foreach_add([a_on_cuda0], [b_on_cuda1])
```

## Use instead

```python
torch._foreach_add([a], [b.to(a.device)])
```

## Fix safety

Safe: the operands are brought together before the kernel runs.

## Known limits

Kernels of extensions are not known.

## References

- [How it works](../how-it-works.md)
"""

# ruff: noqa: RUF001 # sentences are whole lines, and Chinese has its own punctuation

from __future__ import annotations

from samedevice.diagnosis._rule import Rule
from samedevice.events import EventKind
from samedevice.messages import Message

RULE = Rule(
    code="SD105",
    name="unchecked-kernel",
    title=Message(
        "a kernel without checks got several devices",
        "不做检查的内核收到了多个设备上的张量",
    ),
    meaning=Message(
        "real hardware raises nothing: wrong results or an illegal access",
        "真实硬件不报错，而是算错或非法访问内存",
    ),
    cure=Message(
        "bring the operands together before the call",
        "调用之前把操作数移到同一设备",
    ),
    page=__doc__ or "",
    kind=EventKind.UNCHECKED,
)
