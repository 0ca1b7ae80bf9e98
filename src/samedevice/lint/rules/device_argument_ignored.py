"""A function is given a device and gives back a tensor that it makes without one.

## What happens

A function has an argument `device`. It makes tensors there, and one of its results without `device=`; or it
does nothing with the argument at all.

## Why it fails

The caller asked for a device and uses the result there, so on a GPU the first operator fails: "Expected all
tensors to be on the same device".

## Example

```python
import torch


def rotation(length: int, dim: int, device: torch.device):
    cos = torch.ones(length, dim, device=device)
    sin = torch.zeros(length, dim)
    return cos, sin
```

## Use instead

```python
import torch


def rotation(length: int, dim: int, device: torch.device):
    cos = torch.ones(length, dim, device=device)
    sin = torch.zeros(length, dim, device=device)
    return cos, sin
```

## Fix safety

Safe: values, types and shapes stay as they are.

## Known limits

Tensors of no dimensions are left out, and so are constructors, tests, and functions that prepare data. Only
`return` statements count, with the parts of a tuple or a dictionary that is written there.

## References

- [Creation operators](https://docs.pytorch.org/docs/stable/torch.html#creation-ops)
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import partial

from samedevice.diagnosis.fixes import with_keyword
from samedevice.lint._given_back import Results, results
from samedevice.lint._rule import Hit, LintRule, Repair
from samedevice.lint._source import Call, LintedFile, nodes, short
from samedevice.messages import Phrase
from samedevice.static.tensors import FUNCTIONS, device_parameters


def _check(file: LintedFile) -> Iterator[Hit]:
    for each in results(file):
        asked = _asked(each)
        if asked is None:
            continue
        name, reason = asked
        for stray in each.strays:
            if stray.given.tensor.where.kind == "default":
                repair = partial(_repair, file, stray.call, name)
                yield Hit(stray.call.node, {"made": short(stray.call.node), "asked": name}, (reason,), repair)


def _asked(found: Results) -> tuple[str, Phrase] | None:
    """The argument that says where tensors are to be, where others are made there, or nothing uses it."""
    for name in sorted(device_parameters(found.function)):
        beside = next((call for call in found.makers if _names(call.keyword("device"), name)), None)
        if beside is not None:
            line, made = str(beside.node.lineno), short(beside.node, 40)
            return name, RULE.phrase("beside", asked=name, line=line, made=made)
        if not any(_names(each, name) for each in found.function.body):
            return name, RULE.phrase("unused", asked=name)
    return None


def _names(node: ast.AST | None, name: str) -> bool:
    return node is not None and any(isinstance(each, ast.Name) and each.id == name for each in nodes(node))


def _repair(file: LintedFile, call: Call, name: str) -> Repair | None:
    if call.name not in FUNCTIONS["factories"] | {"tensor", "as_tensor"}:
        return None
    if any(isinstance(each, ast.Starred) for each in call.node.args):
        return None
    return Repair(RULE.phrase("fix", asked=name), with_keyword(file.script, call.node, "device", name))


_CHINESE = """函数收到了设备参数，返回的张量创建时却没有写设备。

## 发生了什么

函数有 `device` 参数。别的张量都创建在那里，有一个返回值却没有写 `device=`；或者这个参数根本没有用到。

## 为什么会失败

调用者要求了设备，并在那里使用返回值，所以在 GPU 上第一个算子就会失败：“Expected all tensors to be on the same
device”。

## 示例

```python
import torch


def rotation(length: int, dim: int, device: torch.device):
    cos = torch.ones(length, dim, device=device)
    sin = torch.zeros(length, dim)
    return cos, sin
```

## 应当这样写

```python
import torch


def rotation(length: int, dim: int, device: torch.device):
    cos = torch.ones(length, dim, device=device)
    sin = torch.zeros(length, dim, device=device)
    return cos, sin
```

## 修复是否安全

安全：数值、类型、形状都不变。

## 已知局限

零维张量不算，构造函数、测试和准备数据的函数也不算。只看 `return` 语句，以及直接写在那里的元组或字典的
各个部分。

## 参考

- [创建张量的算子](https://docs.pytorch.org/docs/stable/torch.html#creation-ops)
"""

RULE = LintRule(
    code="SD225",
    name="device-argument-ignored",
    title={
        "en": "a function is given a device and makes its result without it",
        "zh": "函数收到了设备，返回值却没有创建在那里",
    },
    meaning={
        "en": "a result is made without `device=` in a function that the caller told where to make it",
        "zh": "调用者说明了设备，函数的返回值创建时却没有写 `device=`",
    },
    cure={
        "en": "make it on the device that the function was given",
        "zh": "把它创建在函数收到的设备上",
    },
    sentences={
        "headline": {
            "en": "{made} is made on the host and given back, though the caller chose {asked}",
            "zh": "{made} 创建在内存里并被返回，而调用者选择了 {asked}",
        },
        "beside": {
            "en": "line {line} makes {made} on {asked}",
            "zh": "第 {line} 行把 {made} 创建在 {asked} 上",
        },
        "unused": {
            "en": "nothing else in the function uses {asked}",
            "zh": "函数里没有别的地方用到 {asked}",
        },
        "fix": {"en": "make it on {asked}", "zh": "创建时写 device={asked}"},
    },
    page={"en": __doc__ or "", "zh": _CHINESE},
    check=_check,
    cause="tensor-created-on-wrong-device",
    words=("device",),
)
