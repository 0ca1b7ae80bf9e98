"""Other functions of the same name send to a device what this one uses as it came.

## What happens

Functions of a package have one name and one expression in common, such as `_reorder_cache` of several models.
In two others at least a part of it is sent to a device first, or made there; in this one it is not.

## Why it fails

Somebody saw that the two need not be on one device, and repaired the others. This one still fails there.

## Example

```python
import torch


class Small:
    def reorder(self, past: torch.Tensor, beams: torch.Tensor) -> torch.Tensor:
        return past.index_select(0, beams.to(past.device))


class Middle:
    def reorder(self, past: torch.Tensor, beams: torch.Tensor) -> torch.Tensor:
        return past.index_select(0, beams.to(past.device))


class Large:
    def reorder(self, past: torch.Tensor, beams: torch.Tensor) -> torch.Tensor:
        return past.index_select(0, beams)
```

## Use instead

```python
import torch


class Small:
    def reorder(self, past: torch.Tensor, beams: torch.Tensor) -> torch.Tensor:
        return past.index_select(0, beams.to(past.device))


class Middle:
    def reorder(self, past: torch.Tensor, beams: torch.Tensor) -> torch.Tensor:
        return past.index_select(0, beams.to(past.device))


class Large:
    def reorder(self, past: torch.Tensor, beams: torch.Tensor) -> torch.Tensor:
        return past.index_select(0, beams.to(past.device))
```

## Fix safety

No fix is offered: whether the two can be apart here, too, is for a person to say.

## Known limits

Only expressions that are the same as text are compared, within one package, and no constructors. Whoever
calls the function may send the tensor before.

## References

- [Tensor.to](https://docs.pytorch.org/docs/stable/generated/torch.Tensor.to.html)
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from samedevice.lint._rule import Hit, LintRule
from samedevice.lint._siblings import Sent, alike, sent_by
from samedevice.lint._source import CALLERS_DECIDE, Around, Function, LintedFile, called, nodes, short


def _check(file: LintedFile) -> Iterator[Hit]:
    if file.is_test or file.source.changes_default:
        return
    for function, around in file.source.functions:
        if function.name in CALLERS_DECIDE or function.name.lstrip("_").startswith("test"):
            continue
        if file.runs_on_host(Around(function, around.owner)):
            continue
        placed = _placed(function)
        told: set[int] = set()
        for node, sent in alike(file, function):
            count = len({(each.path, each.begins) for each in sent})
            if (
                count >= _LEAST
                and node.lineno not in told
                and _concerns(node, file.statement(node), sent[0], placed)
            ):
                told.add(node.lineno)
                yield _hit(node, sent[0], count)


_LEAST = 2
"""Functions that send it, where one alone may have reasons of its own."""


def _placed(function: Function) -> frozenset[str]:
    """The names of a function that stand in what it sends, and those that it gives what it sends."""
    found: set[str] = set()
    for node in nodes(function):
        sent = [node] if _sends(node) else []
        if isinstance(node, ast.Assign) and any(map(_sends, nodes(node.value))):
            sent += node.targets
        found |= {each.id for inside in sent for each in nodes(inside) if isinstance(each, ast.Name)}
    return frozenset(found - {"self"})


def _sends(node: ast.AST) -> bool:
    return sent_by(node) is not None or (isinstance(node, ast.Call) and called(node) in _SENDERS)


_SENDERS = ("to", "type_as")
"""What sends something to a device, or may."""


def _concerns(
    node: ast.expr | ast.stmt, statement: ast.stmt | None, sent: Sent, placed: frozenset[str]
) -> bool:
    """Whether a function says nothing of where it is what others send, and what is made of it."""
    told: list[ast.AST] = [ast.parse(sent.text)] if not sent.made else []
    told += statement.targets if isinstance(statement, ast.Assign) else []
    names = {each.id for inside in told for each in nodes(inside) if isinstance(each, ast.Name)}
    return placed.isdisjoint(names) and "device" not in ast.unparse(node).partition("\n")[0]


def _hit(node: ast.expr | ast.stmt, sent: Sent, count: int) -> Hit:
    values = {"file": sent.path.name, "line": str(sent.line), "count": str(count)}
    there = RULE.phrase("makes", **values) if sent.made else RULE.phrase("sends", **values)
    return Hit(node, {"text": short(ast.parse(sent.text), 40)}, (there,))


_CHINESE = """同名的其他函数会先把张量送到设备上，这个函数却直接使用。

## 发生了什么

一个包里有几个同名的函数，里面有同一个表达式，例如几个模型各自的 `_reorder_cache`。至少在另外两个
函数里，表达式的一部分先被送到设备上，或者就在设备上创建；在这个函数里没有。

## 为什么会失败

有人发现这两者不一定在同一个设备上，修复了其他几处。这一处在同样的情况下仍然会失败。

## 示例

```python
import torch


class Small:
    def reorder(self, past: torch.Tensor, beams: torch.Tensor) -> torch.Tensor:
        return past.index_select(0, beams.to(past.device))


class Middle:
    def reorder(self, past: torch.Tensor, beams: torch.Tensor) -> torch.Tensor:
        return past.index_select(0, beams.to(past.device))


class Large:
    def reorder(self, past: torch.Tensor, beams: torch.Tensor) -> torch.Tensor:
        return past.index_select(0, beams)
```

## 应当这样写

```python
import torch


class Small:
    def reorder(self, past: torch.Tensor, beams: torch.Tensor) -> torch.Tensor:
        return past.index_select(0, beams.to(past.device))


class Middle:
    def reorder(self, past: torch.Tensor, beams: torch.Tensor) -> torch.Tensor:
        return past.index_select(0, beams.to(past.device))


class Large:
    def reorder(self, past: torch.Tensor, beams: torch.Tensor) -> torch.Tensor:
        return past.index_select(0, beams.to(past.device))
```

## 修复是否安全

不提供修复：两者在这里会不会也分开，要由人判断。

## 已知局限

只在一个包之内比较文字相同的表达式，不看构造函数。调用者可能已经事先移动了张量。

## 参考

- [Tensor.to](https://docs.pytorch.org/docs/stable/generated/torch.Tensor.to.html)
"""

RULE = LintRule(
    code="SD230",
    name="unlike-its-siblings",
    title={
        "en": "functions of the same name send this to a device first",
        "zh": "同名函数会先把它送到设备上",
    },
    meaning={
        "en": "what was repaired in the other functions can fail here, too",
        "zh": "其他函数里修好的问题，这里也可能出现",
    },
    cure={
        "en": "do as the others do, or say why it is not needed here",
        "zh": "照其他函数的做法写，或者说明这里为什么不需要",
    },
    sentences={
        "headline": {
            "en": "{text} is used as it is, and functions of the same name send it to a device",
            "zh": "{text} 被直接使用，而同名的函数会把它送到设备上",
        },
        "sends": {
            "en": "line {line} of {file} sends it; {count} functions do",
            "zh": "{file} 第 {line} 行会移动它；这样做的函数共有 {count} 个",
        },
        "makes": {
            "en": "line {line} of {file} makes it on a device; {count} functions do",
            "zh": "{file} 第 {line} 行在设备上创建它；这样做的函数共有 {count} 个",
        },
    },
    page={"en": __doc__ or "", "zh": _CHINESE},
    check=_check,
    cause="extra-input-on-wrong-device",
    words=("import torch", "from torch"),
    default=False,
)
