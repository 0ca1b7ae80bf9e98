"""What a function gives back is made without a device on one of its ways, and follows its input on others.

## What happens

A function returns `torch.zeros(n)` early, or makes one of its results without `device=`. On its other ways
the result follows the input.

## Why it fails

Whoever calls the function uses the result together with the input. On a GPU that works on most ways, and
fails on this one: "Expected all tensors to be on the same device".

## Example

```python
import torch


def picked(scores: torch.Tensor, least: float):
    if scores.shape[0] == 0:
        return torch.zeros(1, 4)
    return scores[:1].clamp(min=least)
```

## Use instead

```python
import torch


def picked(scores: torch.Tensor, least: float):
    if scores.shape[0] == 0:
        return torch.zeros(1, 4, device=scores.device)
    return scores[:1].clamp(min=least)
```

## Fix safety

No fix is offered: which of the inputs a result belongs to is not told.

## Known limits

Off by default: a caller may look at the result on the host alone. Tensors of no dimensions are left out,
and so are constructors, tests, functions that prepare data, and results that follow an argument which may
be None. Only `return` statements count, with the parts of a tuple or a dictionary that is written there.

## References

- [Creation operators](https://docs.pytorch.org/docs/stable/torch.html#creation-ops)
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from samedevice.lint._given_back import Given, Results, Stray, results
from samedevice.lint._rule import Hit, LintRule
from samedevice.lint._source import LintedFile, short
from samedevice.messages import Phrase, Several
from samedevice.static.tensors import HOST, OTHER, absent_parameters


def _check(file: LintedFile) -> Iterator[Hit]:
    for each in results(file):
        for stray in each.strays:
            reason = _other_way(each, stray, file)
            if reason is not None:
                yield Hit(stray.call.node, {"made": short(stray.call.node)}, (reason,))


def _other_way(found: Results, stray: Stray, file: LintedFile) -> Phrase | None:
    """Where the same part of the result follows something else on another way."""
    absent = absent_parameters(found.function)
    others = [each for each in stray.given.tensor.where.of if each != HOST]
    if others:
        fits = OTHER not in others and not absent.issuperset(others) and _is_one_way(file, stray)
        return _told(stray.given, others) if fits else None
    for each in found.every:
        where = each.tensor.where
        if each.place == stray.given.place and where.follows and not absent.issuperset(where.of):
            return _told(each, where.of)
    return None


def _is_one_way(file: LintedFile, stray: Stray) -> bool:
    """Whether a tensor is made on one way of a condition, and is no placeholder that comes before it."""
    node: ast.AST | None = stray.call.node
    while node is not None and not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        node = file.parents.get(id(node))
        if isinstance(node, ast.If):
            return not stray.call.around.loops
    return False


def _told(given: Given, of: tuple[str, ...] | list[str]) -> Phrase:
    named = Several(tuple(each.partition(":")[0] for each in of))
    return RULE.phrase("other-way", line=str(given.node.lineno), part=short(given.node, 40), of=named)


_CHINESE = """函数的返回值在某条路径上创建时没有写设备，在别的路径上却与输入在同一设备。

## 发生了什么

函数提前返回 `torch.zeros(n)`，或者它的某个返回值创建时没有写 `device=`。而在别的路径上，返回值跟随输入。

## 为什么会失败

调用者会把返回值和输入一起用。在 GPU 上大多数路径都正常，只有这一条会失败：
“Expected all tensors to be on the same device”。

## 示例

```python
import torch


def picked(scores: torch.Tensor, least: float):
    if scores.shape[0] == 0:
        return torch.zeros(1, 4)
    return scores[:1].clamp(min=least)
```

## 应当这样写

```python
import torch


def picked(scores: torch.Tensor, least: float):
    if scores.shape[0] == 0:
        return torch.zeros(1, 4, device=scores.device)
    return scores[:1].clamp(min=least)
```

## 修复是否安全

不提供修复：返回值应当跟随哪个输入，无法判断。

## 已知局限

默认不启用：调用者可能只在内存里看这个返回值。零维张量不算，构造函数、测试、准备数据的函数也不算，跟随可能
为 None 的参数的返回值也不算。只看 `return` 语句，以及直接写在那里的元组或字典的各个部分。

## 参考

- [创建张量的算子](https://docs.pytorch.org/docs/stable/torch.html#creation-ops)
"""

RULE = LintRule(
    code="SD226",
    name="result-left-on-host",
    title={
        "en": "what a function gives back is on the host on one of its ways",
        "zh": "函数的返回值在某条路径上留在内存里",
    },
    meaning={
        "en": "a result is made without `device=`, though it follows the input on another way",
        "zh": "返回值创建时没有写 `device=`，而在别的路径上它跟随输入",
    },
    cure={
        "en": "make it where the function's other results are",
        "zh": "把它创建在函数其他返回值所在的设备上",
    },
    sentences={
        "headline": {
            "en": "{made} is made on the host and given back",
            "zh": "{made} 创建在内存里并被返回",
        },
        "other-way": {
            "en": "line {line} gives {part} in its place, beside {of}",
            "zh": "第 {line} 行在同一位置返回 {part}，它与 {of} 在同一设备",
        },
    },
    page={"en": __doc__ or "", "zh": _CHINESE},
    check=_check,
    default=False,
    cause="tensor-created-on-wrong-device",
    words=("import torch", "from torch"),
)
