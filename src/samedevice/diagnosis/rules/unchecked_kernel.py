"""A kernel that checks nothing got tensors on several devices.

## What happens

Hardware raises no error: it computes wrong results or makes an illegal access.

## Why it fails

A few CUDA kernels dereference what they are given, and a Triton kernel runs on the current GPU, wherever its
tensors are.

## Example

```python
x = torch.ones(1024, device="cuda:1")
my_triton_kernel[(8,)](x, x.numel())  # the current device is cuda:0
```

## Use instead

```python
with torch.cuda.device(x.device):
    my_triton_kernel[(8,)](x, x.numel())
```

## Fix safety

Safe: the kernel runs where its tensors are.

## Known limits

Operators of other libraries are reported when their tensors are on several devices; what their kernels check
is not known.

## References

- [The device-rule table](../rules-table.md)
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
