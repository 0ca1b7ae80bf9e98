"""A function makes some tensors on a device that it names, and one of them without a device.

## What happens

In one function stand `torch.arange(n, device=x.device)` and, a few lines on, `torch.zeros(n)`.

## Why it fails

Who wrote the function thought of devices, and forgot one place. What is made there is on the host and meets
the others sooner or later: "Expected all tensors to be on the same device".

## Example

```python
import torch


def bounds(model, x: torch.Tensor):
    low = torch.zeros(x.shape[0], 2, device=x.device)
    high = torch.ones(x.shape[0], 2)
    return model.clip(low, high)
```

## Use instead

```python
import torch


def bounds(model, x: torch.Tensor):
    low = torch.zeros(x.shape[0], 2, device=x.device)
    high = torch.ones(x.shape[0], 2, device=x.device)
    return model.clip(low, high)
```

## Fix safety

No fix is offered: whether the host was meant is not told.

## Known limits

Off by default: positions, lengths and steps are often meant for the host. Tensors of no dimensions are left
out, and so are constructors, tests, functions that prepare data, and what is an index, is read on the host,
or is sent somewhere later.

## References

- [Creation operators](https://docs.pytorch.org/docs/stable/torch.html#creation-ops)
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from samedevice.lint._given_back import results
from samedevice.lint._rule import Hit, LintRule
from samedevice.lint._source import Call, LintedFile, short

_HOST = ("None", "'cpu'", "torch.device('cpu')")


def _check(file: LintedFile) -> Iterator[Hit]:
    for each in results(file):
        beside = next((call for call in each.makers if _is_placed(call)), None)
        for call in each.kept if beside is not None else ():
            assert beside is not None
            reason = RULE.phrase("beside", line=str(beside.node.lineno), made=short(beside.node))
            yield Hit(call.node, {"made": short(call.node)}, (reason,))


def _is_placed(call: Call) -> bool:
    device = call.keyword("device")
    return device is not None and ast.unparse(device) not in _HOST


_CHINESE = """同一个函数里，有的张量创建时写了设备，有一个却没有写。

## 发生了什么

函数里写了 `torch.arange(n, device=x.device)`，几行之后又写了 `torch.zeros(n)`。

## 为什么会失败

写这个函数的人想到了设备，只漏了一处。那里创建的张量在内存里，迟早会与其他张量相遇：“Expected all tensors
to be on the same device”。

## 示例

```python
import torch


def bounds(model, x: torch.Tensor):
    low = torch.zeros(x.shape[0], 2, device=x.device)
    high = torch.ones(x.shape[0], 2)
    return model.clip(low, high)
```

## 应当这样写

```python
import torch


def bounds(model, x: torch.Tensor):
    low = torch.zeros(x.shape[0], 2, device=x.device)
    high = torch.ones(x.shape[0], 2, device=x.device)
    return model.clip(low, high)
```

## 修复是否安全

不提供修复：是否有意放在内存里，无法判断。

## 已知局限

默认不启用：位置、长度、步数常常有意放在内存里。零维张量不算，构造函数、测试、准备数据的函数也不算；作为索
引的、在内存里读取的、之后被移走的也不算。

## 参考

- [创建张量的算子](https://docs.pytorch.org/docs/stable/torch.html#creation-ops)
"""

RULE = LintRule(
    code="SD227",
    name="made-unlike-neighbours",
    title={
        "en": "a function makes some tensors on a device and one without",
        "zh": "函数里有的张量写了设备，有一个没有写",
    },
    meaning={
        "en": "a tensor is made without `device=` where others of the same function have one",
        "zh": "张量创建时没有写 `device=`，而同一函数里的其他张量写了",
    },
    cure={
        "en": "make it with the same `device=`",
        "zh": "创建时写同样的 `device=`",
    },
    sentences={
        "headline": {
            "en": "{made} is made on the host, unlike others in this function",
            "zh": "{made} 创建在内存里，与本函数里的其他张量不同",
        },
        "beside": {
            "en": "line {line} makes {made}",
            "zh": "第 {line} 行创建了 {made}",
        },
    },
    page={"en": __doc__ or "", "zh": _CHINESE},
    check=_check,
    default=False,
    cause="tensor-created-on-wrong-device",
    words=("device",),
)
