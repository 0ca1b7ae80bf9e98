"""A function is given a device and makes a tensor without it.

## What happens

A function has an argument `device`. It makes tensors there, and another one without `device=`; or it gives
back what it makes, and does nothing with the argument at all.

## Why it fails

The caller asked for a device and uses the results there, so on a GPU the first operator fails: "Expected all
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

Off by default: it is often wrong, since the host may be what is meant. Tensors of no
dimensions are left out, and so are constructors, tests, and functions that prepare data; also what is an
index, is read on the host, is put into another tensor, or is sent somewhere later. Where the function does
nothing with its device, only `return` statements count, with the parts of a tuple or a dictionary that is
written there.

## References

- [Creation operators](https://docs.pytorch.org/docs/stable/torch.html#creation-ops)
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import partial

from samedevice.diagnosis.fixes import with_keyword
from samedevice.lint._given_back import results
from samedevice.lint._rule import Hit, LintRule, Repair
from samedevice.lint._source import Call, LintedFile, nodes, short
from samedevice.messages import Phrase
from samedevice.static.tensors import FUNCTIONS, device_parameters


def _check(file: LintedFile) -> Iterator[Hit]:
    for each in results(file):
        back = [stray.call for stray in each.strays if stray.given.tensor.where.kind == "default"]
        for asked in sorted(device_parameters(each.function)):
            beside = next((call for call in each.makers if _names(call.keyword("device"), asked)), None)
            if beside is not None:
                line, made = str(beside.node.lineno), short(beside.node, 40)
                reason = RULE.phrase("beside", asked=asked, line=line, made=made)
                calls = list({id(call): call for call in (*back, *each.kept)}.values())
            elif not any(_names(statement, asked) for statement in each.function.body):
                reason, calls = RULE.phrase("unused", asked=asked), back
            else:
                continue
            yield from (_hit(file, call, asked, reason) for call in calls)
            break


def _hit(file: LintedFile, call: Call, asked: str, reason: Phrase) -> Hit:
    repair = partial(_repair, file, call, asked)
    return Hit(call.node, {"made": short(call.node), "asked": asked}, (reason,), repair)


def _names(node: ast.AST | None, name: str) -> bool:
    return node is not None and any(isinstance(each, ast.Name) and each.id == name for each in nodes(node))


def _repair(file: LintedFile, call: Call, name: str) -> Repair | None:
    if call.name not in FUNCTIONS["factories"] | {"tensor", "as_tensor"}:
        return None
    if any(isinstance(each, ast.Starred) for each in call.node.args):
        return None
    return Repair(RULE.phrase("fix", asked=name), with_keyword(file.script, call.node, "device", name))


_CHINESE = """函数收到了设备参数，创建张量时却没有用它。

## 发生了什么

函数有 `device` 参数。别的张量创建在那里，有一个却没有写 `device=`；或者函数返回它创建的张量，而这个参数根
本没有用到。

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

默认不启用：它常常误报，因为本意可能就是放在 CPU 上。零维张量不算，构造函数、测试和准备数据的函数也
不算；作为索引的、在内存里读取的、写进别的张量的、之后被移走的也不算。参数根本没有用到时，只看 `return` 语句，
以及直接写在那里的元组或字典的各个部分。

## 参考

- [创建张量的算子](https://docs.pytorch.org/docs/stable/torch.html#creation-ops)
"""

RULE = LintRule(
    code="SD225",
    name="device-argument-ignored",
    title={
        "en": "a function is given a device and makes a tensor without it",
        "zh": "函数收到了设备，却有张量没有创建在那里",
    },
    meaning={
        "en": "a tensor is made without `device=` in a function that the caller told where to make it",
        "zh": "调用者说明了设备，函数创建张量时却没有写 `device=`",
    },
    cure={
        "en": "make it on the device that the function was given",
        "zh": "把它创建在函数收到的设备上",
    },
    sentences={
        "headline": {
            "en": "{made} is made on the host, though the caller chose {asked}",
            "zh": "{made} 创建在内存里，而调用者选择了 {asked}",
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
    default=False,
    cause="tensor-created-on-wrong-device",
    words=("device",),
)
