"""A total that is made on the host collects losses of a GPU.

## What happens

`total = torch.zeros(1)` stands before the loop; in it comes `total += loss`.

## Why it fails

The loss is where the model is. Adding in place writes into the total, which is on the host: that fails for
a loss of no dimensions, too.

## Example

```python
import torch


def epoch(model, loader, loss_fn, device):
    total = torch.zeros(1)
    for x, y in loader:
        loss = loss_fn(model(x.to(device)), y.to(device))
        total += loss.detach()
    return total / len(loader)
```

## Use instead

```python
import torch


def epoch(model, loader, loss_fn, device):
    total = torch.zeros(1, device=device)
    for x, y in loader:
        loss = loss_fn(model(x.to(device)), y.to(device))
        total += loss.detach()
    return total / len(loader)
```

## Fix safety

No fix is offered: `total += loss.item()` waits for the GPU in each step, `device=loss.device` does not.

## Known limits

Only totals that are added to in place and whose loop moves something, or names a device, count.

## References

- [CUDA semantics](https://docs.pytorch.org/docs/stable/notes/cuda.html)
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from samedevice.lint._rule import Hit, LintRule
from samedevice.lint._source import Around, Call, LintedFile, nodes, short
from samedevice.static.tensors import Tensor

_READS = (".item()", ".cpu()", "float(", ".tolist()")


def _check(file: LintedFile) -> Iterator[Hit]:
    if file.is_test or file.source.changes_default:
        return
    moves = [call for call in file.calls("to", "cuda") if call.around.loops]
    done: set[int] = set()
    for call in moves:
        for loop in call.around.loops:
            if id(loop) not in done:
                done.add(id(loop))
                yield from _in_loop(file, loop, call)


def _in_loop(file: LintedFile, loop: ast.AST, call: Call) -> Iterator[Hit]:
    around = Around(call.around.function, call.around.owner)
    for node in nodes(loop):
        if not isinstance(node, ast.AugAssign) or not isinstance(node.op, ast.Add):
            continue
        text = ast.unparse(node.value)
        if "loss" not in text.lower() or any(word in text for word in _READS):
            continue
        total = file.told(around).values.get(id(node.target))
        if isinstance(total, Tensor) and total.where.kind == "default" and total.role == "made":
            if not _is_read(file, around, node.value):
                yield Hit(node, {"total": short(node.target), "loss": short(node.value)})


def _is_read(file: LintedFile, around: Around, value: ast.expr) -> bool:
    """Whether what is added was brought to the host when its name was given to it."""
    names = [node.id for node in nodes(value) if isinstance(node, ast.Name)]
    given = [ast.unparse(each) for name in names for each in file.assignments(around, name)]
    return any(word in text for text in given for word in _READS)


_CHINESE = """累计值创建在内存里，却要累加 GPU 上的损失。

## 发生了什么

循环之前写着 `total = torch.zeros(1)`，循环里是 `total += loss`。

## 为什么会失败

损失在模型所在的设备上。原地相加要写入内存里的累计值，即使损失是零维张量也会失败。

## 示例

```python
import torch


def epoch(model, loader, loss_fn, device):
    total = torch.zeros(1)
    for x, y in loader:
        loss = loss_fn(model(x.to(device)), y.to(device))
        total += loss.detach()
    return total / len(loader)
```

## 应当这样写

```python
import torch


def epoch(model, loader, loss_fn, device):
    total = torch.zeros(1, device=device)
    for x, y in loader:
        loss = loss_fn(model(x.to(device)), y.to(device))
        total += loss.detach()
    return total / len(loader)
```

## 修复是否安全

不提供修复：`total += loss.item()` 每一步都要等 GPU，`device=loss.device` 则不用。

## 已知局限

只看原地相加，而且循环里有移动或写明设备的情况。

## 参考

- [CUDA 语义](https://docs.pytorch.org/docs/stable/notes/cuda.html)
"""

RULE = LintRule(
    code="SD213",
    name="total-on-fixed-device",
    title={
        "en": "a total on the host collects losses of a GPU",
        "zh": "内存里的累计值累加 GPU 上的损失",
    },
    meaning={
        "en": "adding in place writes where the total is",
        "zh": "原地相加会写入累计值所在的设备",
    },
    cure={
        "en": "make the total on the device of the losses",
        "zh": "在损失所在的设备上创建累计值",
    },
    sentences={
        "headline": {
            "en": "{total} is on the host and collects {loss}",
            "zh": "{total} 在内存里，却累加 {loss}",
        },
    },
    page={"en": __doc__ or "", "zh": _CHINESE},
    check=_check,
    cause="loss-or-label-on-other-device",
    words=("loss",),
)
