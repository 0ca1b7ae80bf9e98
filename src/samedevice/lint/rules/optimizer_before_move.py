"""An optimizer is made from a model that is moved afterwards.

## What happens

`torch.optim.AdamW(model.parameters())` stands before `model.to(device)` or `model.cuda()`.

## Why it fails

Optimizers that keep state from the start have it on the old device. Where the move gives new parameters, as
for sharded or shared weights and on some accelerators, the optimizer goes on training the old ones: the
loss stays where it is, and nothing fails.

## Example

```python
import torch
from torch import nn

model = nn.Linear(8, 2)
optimizer = torch.optim.AdamW(model.parameters())
model.to("cuda:0")
```

## Use instead

```python
import torch
from torch import nn

model = nn.Linear(8, 2)
model.to("cuda:0")
optimizer = torch.optim.AdamW(model.parameters())
```

## Fix safety

Safe where the two stand in one block: the move goes before the optimizer.

## Known limits

Only a move in the same function, of the very name.

## References

- [torch.optim](https://docs.pytorch.org/docs/stable/optim.html#constructing-it)
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import partial

from samedevice.diagnosis.fixes import lifted
from samedevice.lint._rule import Hit, LintRule, Repair
from samedevice.lint._source import Call, LintedFile, nodes
from samedevice.static.tensors import OPTIMIZERS


def _check(file: LintedFile) -> Iterator[Hit]:
    moves = [call for call in file.calls("to", "cuda") if _moved_name(call)]
    for made in file.calls(*OPTIMIZERS) if moves else ():
        name = _model_of(made)
        if name is None or made.around.loops:
            continue
        for move in moves:
            if _moved_name(move) != name or move.around.function is not made.around.function:
                continue
            if (
                move.node.lineno > made.node.lineno
                and not move.around.loops
                and not _given_anew(file, made, move, name)
            ):
                yield Hit(
                    made.node,
                    {"optimizer": made.name, "line": str(move.node.lineno), "model": name},
                    repair=partial(_repair, file, made, move),
                )
                break


def _model_of(made: Call) -> str | None:
    """The name of the model whose parameters an optimizer gets."""
    match made.node.args[0] if made.node.args else made.keyword("params"):
        case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="parameters")):
            return name
    return None


def _moved_name(move: Call) -> str | None:
    """The name that a statement moves: `model.to(device)`, alone or given to the same name."""
    match move.node, move.around.statement:
        case ast.Call(func=ast.Attribute(value=ast.Name(id=name))), ast.Expr(value=value) if (
            value is move.node
        ):
            found = name
        case (
            ast.Call(func=ast.Attribute(value=ast.Name(id=name))),
            ast.Assign(targets=[ast.Name(id=target)], value=value),
        ) if value is move.node and target == name:
            found = name
        case _:
            return None
    if move.name == "to" and not _names_a_device(move):
        return None
    return found


def _names_a_device(move: Call) -> bool:
    given = move.keyword("device") or (move.node.args[0] if move.node.args else None)
    if given is None:
        return False
    text = ast.unparse(given)
    return "device" in text or "cuda" in text or isinstance(given, ast.Constant) or "rank" in text.lower()


def _given_anew(file: LintedFile, made: Call, move: Call, name: str) -> bool:
    """Whether the name stands for something else at the move."""
    body = file.source.tree if made.around.function is None else made.around.function
    return any(
        isinstance(node, ast.Name)
        and node.id == name
        and isinstance(node.ctx, ast.Store)
        and made.node.lineno < node.lineno < move.node.lineno
        for node in nodes(body)
    )


def _repair(file: LintedFile, made: Call, move: Call) -> Repair | None:
    early, late = made.around.statement, move.around.statement
    block = next((each for each in file.script.blocks() if early in each and late in each), None)
    if early is None or late is None or block is None:
        return None
    return Repair(RULE.phrase("fix"), lifted(file.script, [late], early))


_CHINESE = """优化器创建之后，模型才被移动。

## 发生了什么

`torch.optim.AdamW(model.parameters())` 写在 `model.to(device)` 或 `model.cuda()` 之前。

## 为什么会失败

一创建就有状态的优化器，状态留在旧设备上。移动若产生新的参数（分片或共享的权重，以及某些加速器），优化器
仍在训练旧的参数：损失不再下降，也不报错。

## 示例

```python
import torch
from torch import nn

model = nn.Linear(8, 2)
optimizer = torch.optim.AdamW(model.parameters())
model.to("cuda:0")
```

## 应当这样写

```python
import torch
from torch import nn

model = nn.Linear(8, 2)
model.to("cuda:0")
optimizer = torch.optim.AdamW(model.parameters())
```

## 修复是否安全

两者在同一个代码块里时安全：把移动放到创建优化器之前。

## 已知局限

只看同一个函数里对同一个名字的移动。

## 参考

- [torch.optim](https://docs.pytorch.org/docs/stable/optim.html#constructing-it)
"""

RULE = LintRule(
    code="SD206",
    name="optimizer-before-move",
    title={
        "en": "an optimizer is made before its model is moved",
        "zh": "先创建优化器，后移动模型",
    },
    meaning={
        "en": "the documentation of torch.optim asks for the move first",
        "zh": "torch.optim 的文档要求先移动模型",
    },
    cure={
        "en": "move the model first",
        "zh": "先移动模型",
    },
    sentences={
        "headline": {
            "en": "{optimizer} is made before line {line} moves {model}",
            "zh": "{optimizer} 创建之后，第 {line} 行才移动 {model}",
        },
        "fix": {
            "en": "move the model before the optimizer is made",
            "zh": "先移动模型，再创建优化器",
        },
    },
    page={"en": __doc__ or "", "zh": _CHINESE},
    check=_check,
    cause="optimizer-built-before-move",
    words=(
        "ASGD(",
        "Adadelta(",
        "Adafactor(",
        "Adagrad(",
        "Adam(",
        "Adam8bit(",
        "AdamW(",
        "AdamW8bit(",
        "Adamax(",
        "DeepSpeedCPUAdam(",
        "FusedAdam(",
        "FusedLAMB(",
        "LBFGS(",
        "Lamb(",
        "Lion(",
        "Lion8bit(",
        "NAdam(",
        "PagedAdamW(",
        "PagedAdamW32bit(",
        "PagedAdamW8bit(",
        "RAdam(",
        "RMSprop(",
        "Rprop(",
        "SGD(",
        "SGD8bit(",
        "SparseAdam(",
    ),
)
