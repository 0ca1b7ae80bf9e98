"""The result of `.to()` of a tensor is thrown away.

## What happens

`x.to(device)`, `x.cuda()` or `x.cpu()` stands alone in a line. For a module that moves it; a tensor stays
where it is, and the moved copy is thrown away.

## Why it fails

The tensor is used later as if it had been moved.

## Example

```python
import torch


def scores(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    x.to(weight.device)
    return x @ weight
```

## Use instead

```python
import torch


def scores(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    x = x.to(weight.device)
    return x @ weight
```

## Fix safety

Safe: the name stands for the copy from then on. Others that hold the same tensor still have the old one.

## Known limits

Only what is a tensor for sure is flagged: an argument with such an annotation, or what an operator of torch
gave.

## References

- [Tensor.to](https://docs.pytorch.org/docs/stable/generated/torch.Tensor.to.html)
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import partial

from samedevice.diagnosis.fixes import swapped
from samedevice.lint._rule import Hit, LintRule, Repair
from samedevice.lint._source import Call, LintedFile, short
from samedevice.static.tensors import Tensor


def _check(file: LintedFile) -> Iterator[Hit]:
    for call in file.calls("to", "cuda", "cpu"):
        statement = call.around.statement
        if not isinstance(statement, ast.Expr) or statement.value is not call.node:
            continue
        assert isinstance(statement.value, ast.Call)
        given = call.node.args or call.node.keywords
        if not isinstance(call.node.func, ast.Attribute) or (call.name == "to" and not given):
            continue
        chosen: list[ast.expr | ast.keyword] = [*call.node.args, *call.node.keywords]
        if call.name == "to" and all(_is_dtype(file, each) for each in chosen):
            continue
        owner = call.node.func.value
        values = file.told(call.around).values
        if _is_tensor(values, owner):
            parameter = _is_parameter(values, owner)
            yield Hit(
                call.node,
                {"call": short(call.node), "kept": short(owner)},
                repair=partial(_repair, file, call, owner, parameter),
                confidence="certain",
            )


def _is_dtype(file: LintedFile, given: ast.expr | ast.keyword) -> bool:
    """Whether an argument chooses a type of numbers, and no device."""
    if isinstance(given, ast.keyword):
        return given.arg not in ("device", "other", None)
    name = file.source.dotted(given)
    return (name.startswith("torch.") and name.count(".") == 1) or name.endswith("dtype")


def _is_tensor(values: dict[int, object], node: ast.expr) -> bool:
    """Whether an expression is a tensor for sure: not what a part of a module gave, which may be a module,
    nor a copy of something that nobody can tell.
    """
    value = values.get(id(node))
    if not isinstance(value, Tensor) or value.where.kind == "part":
        return False
    match value.made:
        case ast.Call(func=ast.Attribute(value=moved, attr="to" | "cuda" | "cpu")):
            return isinstance(values.get(id(moved)), Tensor)
    return True


def _is_parameter(values: dict[int, object], node: ast.expr) -> bool:
    """Whether an attribute is a parameter: a module takes no other tensor in its place."""
    value = values.get(id(node))
    return isinstance(node, ast.Attribute) and isinstance(value, Tensor) and value.role == "parameter"


def _repair(file: LintedFile, call: Call, owner: ast.expr, parameter: bool) -> Repair | None:
    if not isinstance(owner, ast.Name | ast.Attribute):
        return None
    text = file.script.text(call.node)
    name = file.script.text(owner)
    if parameter:
        if not text.startswith(name):
            return None
        name, text = f"{name}.data", f"{name}.data{text.removeprefix(name)}"
    return Repair(RULE.phrase("fix", kept=name), swapped(file.script, call.node, f"{name} = {text}"))


_CHINESE = """张量 `.to()` 的结果被丢掉了。

## 发生了什么

`x.to(device)`、`x.cuda()`、`x.cpu()` 单独占一行。对模块来说这会移动它；张量自己却留在原处，移动后的副本被
丢掉了。

## 为什么会失败

后面的代码以为张量已经移动过。

## 示例

```python
import torch


def scores(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    x.to(weight.device)
    return x @ weight
```

## 应当这样写

```python
import torch


def scores(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    x = x.to(weight.device)
    return x @ weight
```

## 修复是否安全

安全：之后这个名字就代表移动后的副本。别处若还拿着同一个张量，那里仍是旧的。

## 已知局限

只提示确定是张量的情况：参数有相应的类型标注，或者是 torch 算子的结果。

## 参考

- [Tensor.to](https://docs.pytorch.org/docs/stable/generated/torch.Tensor.to.html)
"""

RULE = LintRule(
    code="SD210",
    name="moved-copy-thrown-away",
    title={"en": "the result of .to() of a tensor is thrown away", "zh": "张量 .to() 的结果被丢掉"},
    meaning={
        "en": "`.to()` moves a module, but of a tensor it gives a copy",
        "zh": "`.to()` 会移动模块；对张量则返回一个副本",
    },
    cure={"en": "assign the result: `x = x.to(device)`", "zh": "把结果赋值回去：`x = x.to(device)`"},
    sentences={
        "headline": {
            "en": "{call} leaves {kept} where it is",
            "zh": "{call} 并没有移动 {kept}",
        },
        "fix": {"en": "keep the copy as {kept}", "zh": "把副本赋给 {kept}"},
    },
    page={"en": __doc__ or "", "zh": _CHINESE},
    check=_check,
    cause="tensor-created-on-wrong-device",
    words=(".to(", ".cuda(", ".cpu("),
)
