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

_CHINESE = """随机算子收到了另一种设备的随机数生成器。

## 发生了什么

用 CPU 生成器去填充 CUDA 张量，或者反过来。

## 为什么会失败

一个生成器只属于一种设备。

## 示例

```python
torch.randn(2, device="cuda", generator=torch.Generator())
```

## 应当这样写

```python
torch.randn(2, device="cuda", generator=torch.Generator(device="cuda"))
```

## 修复是否安全

安全，但换了生成器，得到的随机数也不同。

## 已知局限

不比较两块 GPU 之间的编号与生成器。

## 参考

- [torch.Generator](https://docs.pytorch.org/docs/stable/generated/torch.Generator.html)
"""

RULE = Rule(
    code="SD103",
    name="generator-on-other-device",
    title={
        "en": "the generator is of another device",
        "zh": "随机数生成器属于另一种设备",
    },
    meaning={
        "en": "a random operator got a generator of another type of device",
        "zh": "随机算子收到了另一种设备的生成器",
    },
    cure={
        "en": "make the generator on the tensor's device",
        "zh": "在张量所在的设备上创建生成器",
    },
    sentences={
        "headline": {
            "en": "{op} got a random generator of another device",
            "zh": "{op} 的随机数生成器在另一种设备上",
        },
        "why": {
            "en": "a generator belongs to one type of device and draws only for tensors of that type",
            "zh": "随机数生成器属于一种设备，只能为这种设备上的张量取数",
        },
    },
    page={"en": __doc__ or "", "zh": _CHINESE},
    kind=EventKind.GENERATOR,
)
