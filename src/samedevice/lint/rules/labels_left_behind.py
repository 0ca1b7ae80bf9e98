"""A training loop moves its inputs and leaves the labels where the loader made them.

## What happens

In `for x, y in loader` the loop moves `x` and gives `y` to the loss as it is.

## Why it fails

What the model gives is on the GPU, the labels are on the host.

## Example

```python
import torch
from torch import nn


def train(model, loader, optimizer, device):
    criterion = nn.CrossEntropyLoss()
    for inputs, labels in loader:
        inputs = inputs.to(device)
        loss = criterion(model(inputs), labels)
        loss.backward()
        optimizer.step()
```

## Use instead

```python
import torch
from torch import nn


def train(model, loader, optimizer, device):
    criterion = nn.CrossEntropyLoss()
    for inputs, labels in loader:
        inputs = inputs.to(device)
        labels = labels.to(device)
        loss = criterion(model(inputs), labels)
        loss.backward()
        optimizer.step()
```

## Fix safety

Safe: the labels are moved in the same way as the inputs, behind them.

## Known limits

Only loops over pairs whose names stand in the loop's head count, and losses that are known by name.

## References

- [Training a classifier](https://docs.pytorch.org/tutorials/beginner/blitz/cifar10_tutorial.html#training-on-gpu)
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import partial

from samedevice.diagnosis.fixes import swapped
from samedevice.lint._rule import Hit, LintRule, Repair
from samedevice.lint._source import LintedFile, called, nodes

_LOSSES = (
    "cross_entropy",
    "nll_loss",
    "mse_loss",
    "l1_loss",
    "bce_loss",
    "binary_cross_entropy",
    "criterion",
    "loss_fn",
)


def _check(file: LintedFile) -> Iterator[Hit]:
    if file.is_test:
        return
    for loop in {id(loop): loop for call in file.calls("to", "cuda") for loop in call.around.loops}.values():
        if isinstance(loop, ast.For):
            yield from _in_loop(file, loop)


def _in_loop(file: LintedFile, loop: ast.For) -> Iterator[Hit]:
    names = _pair(loop.target)
    moves = {name: node for node in loop.body for name in names if (_moves(node, name))}
    if len(names) < 2 or not moves:
        return
    read = [node for node in nodes(loop) if isinstance(node, ast.Call) and _is_loss(node)]
    for name in names:
        if name in moves or _given(loop, name):
            continue
        for node in read:
            if any(isinstance(each, ast.Name) and each.id == name for each in node.args):
                moved, statement = next(iter(moves.items()))
                yield Hit(
                    node,
                    {"labels": name, "inputs": moved},
                    repair=partial(_repair, file, statement, moved, name),
                )
                break


def _pair(target: ast.expr) -> list[str]:
    """The names that a loop's head gives the parts of a batch; also behind a number of `enumerate`."""
    if not isinstance(target, ast.Tuple):
        return []
    inner = [each for each in target.elts if isinstance(each, ast.Tuple)]
    return [each.id for each in (inner[0].elts if inner else target.elts) if isinstance(each, ast.Name)]


def _moves(node: ast.stmt, name: str) -> bool:
    match node:
        case ast.Assign(
            targets=[ast.Name(id=target)],
            value=ast.Call(func=ast.Attribute(value=ast.Name(id=source), attr="to" | "cuda"), args=given),
        ):
            text = " ".join(map(ast.unparse, given))
            return target == source == name and ("device" in text or "cuda" in text or not given)
    return False


def _given(loop: ast.For, name: str) -> bool:
    """Whether the loop gives a name something else, or moves it where it is used."""
    return any(
        (isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Store))
        or (
            isinstance(node, ast.Attribute)
            and node.attr in ("to", "cuda")
            and isinstance(node.value, ast.Name)
            and node.value.id == name
        )
        for statement in loop.body
        for node in nodes(statement)
    )


def _is_loss(node: ast.Call) -> bool:
    name = called(node).lower()
    return name in _LOSSES or name.endswith(("loss", "criterion")) or name.startswith(("loss", "criterion"))


def _repair(file: LintedFile, statement: ast.stmt, moved: str, name: str) -> Repair | None:
    text = file.script.text(statement)
    if text.count(moved) != 2 or "\n" in text:
        return None
    lines = file.source.lines
    indent = lines[statement.lineno - 1][: statement.col_offset]
    added = f"{text}\n{indent}{text.replace(moved, name)}"
    return Repair(RULE.phrase("fix", labels=name), swapped(file.script, statement, added))


_CHINESE = """训练循环移动了输入，标签却留在原处。

## 发生了什么

`for x, y in loader` 的循环移动了 `x`，却把 `y` 原样交给损失函数。

## 为什么会失败

模型的输出在 GPU 上，标签在内存里。

## 示例

```python
import torch
from torch import nn


def train(model, loader, optimizer, device):
    criterion = nn.CrossEntropyLoss()
    for inputs, labels in loader:
        inputs = inputs.to(device)
        loss = criterion(model(inputs), labels)
        loss.backward()
        optimizer.step()
```

## 应当这样写

```python
import torch
from torch import nn


def train(model, loader, optimizer, device):
    criterion = nn.CrossEntropyLoss()
    for inputs, labels in loader:
        inputs = inputs.to(device)
        labels = labels.to(device)
        loss = criterion(model(inputs), labels)
        loss.backward()
        optimizer.step()
```

## 修复是否安全

安全：在移动输入的那一行之后，用同样的方式移动标签。

## 已知局限

只看循环头里写出名字的成对数据，以及能从名字认出的损失函数。

## 参考

- [训练分类器](https://docs.pytorch.org/tutorials/beginner/blitz/cifar10_tutorial.html#training-on-gpu)
"""

RULE = LintRule(
    code="SD211",
    name="labels-left-behind",
    title={
        "en": "labels are not moved to where the inputs go",
        "zh": "输入移动了，标签没有移动",
    },
    meaning={
        "en": "the loss gets what the model gives, on the GPU, and labels on the host",
        "zh": "损失函数同时收到 GPU 上的输出和内存里的标签",
    },
    cure={
        "en": "move the labels as well",
        "zh": "把标签也移动过去",
    },
    sentences={
        "headline": {
            "en": "{labels} stays on the host while {inputs} is moved",
            "zh": "{inputs} 移动了，{labels} 还留在内存里",
        },
        "fix": {
            "en": "move {labels} as well",
            "zh": "把 {labels} 也移动过去",
        },
    },
    page={"en": __doc__ or "", "zh": _CHINESE},
    check=_check,
    cause="loss-or-label-on-other-device",
    words=(".to(", ".cuda("),
)
