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

from __future__ import annotations

from samedevice.diagnosis._rule import Rule
from samedevice.events import EventKind

_CHINESE = """一个什么都不检查的内核收到了多个设备上的张量。

## 发生了什么

真实硬件不报错：要么算出错误的结果，要么非法访问内存。

## 为什么会失败

少数 CUDA 内核拿到指针就读；Triton 内核在当前 GPU 上运行，不管张量在哪里。

## 示例

```python
x = torch.ones(1024, device="cuda:1")
my_triton_kernel[(8,)](x, x.numel())  # 当前设备是 cuda:0
```

## 应当这样写

```python
with torch.cuda.device(x.device):
    my_triton_kernel[(8,)](x, x.numel())
```

## 修复是否安全

安全：内核在张量所在的设备上运行。

## 已知局限

其他库的算子，只要张量在多个设备上就会报告；它们的内核检查什么，无从得知。

## 参考

- [设备规则表](../rules-table.md)
- [工作原理](../how-it-works.md)
"""

RULE = Rule(
    code="SD105",
    name="unchecked-kernel",
    title={
        "en": "a kernel without checks got several devices",
        "zh": "不做检查的内核收到了多个设备上的张量",
    },
    meaning={
        "en": "real hardware raises nothing: wrong results or an illegal access",
        "zh": "真实硬件不报错，而是算错或非法访问内存",
    },
    cure={
        "en": "bring the operands together before the call",
        "zh": "调用之前把操作数移到同一设备",
    },
    sentences={
        "headline": {
            "en": "{op} checks nothing and got tensors on {devices}",
            "zh": "{op} 不做任何检查，却收到了 {devices} 上的张量",
        },
        "why": {
            "en": "real hardware raises no error here: it computes wrong results or makes an illegal access",
            "zh": "真实硬件在这里不会报错，而是算出错误结果或非法访问内存",
        },
    },
    page={"en": __doc__ or "", "zh": _CHINESE},
    kind=EventKind.UNCHECKED,
)
