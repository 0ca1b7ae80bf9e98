"""A random operator got a generator of another type of device.

## What happens

A CUDA tensor is filled from a CPU generator, or the reverse.

## Why it fails

A generator belongs to one type of device.

## Example

```python
torch.randn(2, device="cuda", generator=torch.Generator())
```

## Use instead

```python
torch.randn(2, device="cuda", generator=torch.Generator(device="cuda"))
```

## Fix safety

Safe, but another generator draws other numbers.

## Known limits

Index and generator of two different GPUs are not compared.

## References

- [torch.Generator](https://docs.pytorch.org/docs/stable/generated/torch.Generator.html)
"""

# sentences are whole lines, and Chinese has its own punctuation

from __future__ import annotations

from samedevice.diagnosis._rule import Rule
from samedevice.events import EventKind
from samedevice.messages import Message

RULE = Rule(
    code="SD103",
    name="generator-on-other-device",
    title=Message(
        "the generator is of another device",
        "随机数生成器属于另一种设备",
    ),
    meaning=Message(
        "a random operator got a generator of another type of device",
        "随机算子收到了另一种设备的生成器",
    ),
    cure=Message(
        "make the generator on the tensor's device",
        "在张量所在的设备上创建生成器",
    ),
    page=__doc__ or "",
    kind=EventKind.GENERATOR,
)
