"""A training loop waits for the GPU in each step.

## What happens

`.item()`, `.cpu()`, `.tolist()` or `.numpy()` of a loss stands in the loop that trains.

## Why it fails

Nothing fails. The host waits until all work that was given to the GPU is done, and gives it none meanwhile.

## Example

```python
def train(model, loader, optimizer, loss_fn):
    seen = 0.0
    for x, y in loader:
        loss = loss_fn(model(x), y)
        loss.backward()
        optimizer.step()
        seen += loss.item()
    return seen
```

## Use instead

```python
def train(model, loader, optimizer, loss_fn):
    seen = 0.0
    for x, y in loader:
        loss = loss_fn(model(x), y)
        loss.backward()
        optimizer.step()
        seen = seen + loss.detach()
    return float(seen)
```

## Fix safety

No fix is offered: collect the losses on the GPU and read them once in a while.

## Known limits

A loop that must know the value, or reads it every hundredth step, is flagged as well: the rule is off by
default.

## References

- [Performance tuning guide](https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html#avoid-unnecessary-cpu-gpu-synchronization)
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from samedevice.lint._rule import Hit, LintRule
from samedevice.lint._source import LintedFile, called, nodes, short


def _check(file: LintedFile) -> Iterator[Hit]:
    for call in file.calls("item", "tolist", "cpu", "numpy"):
        if not call.around.loops or call.node.args or not isinstance(call.node.func, ast.Attribute):
            continue
        if "loss" not in ast.unparse(call.node.func.value).lower():
            continue
        if any(
            isinstance(node, ast.Call) and called(node) == "backward" for node in nodes(call.around.loops[-1])
        ):
            yield Hit(call.node, {"call": short(call.node)}, confidence="guess")


_CHINESE = """训练循环每一步都在等 GPU。

## 发生了什么

训练循环里有损失的 `.item()`、`.cpu()`、`.tolist()` 或 `.numpy()`。

## 为什么会失败

不会出错，但 CPU 要等交给 GPU 的工作全部做完，这段时间也不再派活。

## 示例

```python
def train(model, loader, optimizer, loss_fn):
    seen = 0.0
    for x, y in loader:
        loss = loss_fn(model(x), y)
        loss.backward()
        optimizer.step()
        seen += loss.item()
    return seen
```

## 应当这样写

```python
def train(model, loader, optimizer, loss_fn):
    seen = 0.0
    for x, y in loader:
        loss = loss_fn(model(x), y)
        loss.backward()
        optimizer.step()
        seen = seen + loss.detach()
    return float(seen)
```

## 修复是否安全

不提供修复：把损失累积在 GPU 上，隔一段时间再读取。

## 已知局限

确实需要这个值的循环，或者每一百步才读一次的，也会提示；所以这条规则默认关闭。

## 参考

- [性能调优指南](https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html#avoid-unnecessary-cpu-gpu-synchronization)
"""

RULE = LintRule(
    code="SD216",
    name="read-back-in-training-loop",
    title={
        "en": "a training loop reads a value back in each step",
        "zh": "训练循环每一步都读回数值",
    },
    meaning={
        "en": "the host waits for the GPU and gives it no work meanwhile",
        "zh": "CPU 等待 GPU，这段时间不再派活",
    },
    cure={
        "en": "collect on the GPU, and read once in a while",
        "zh": "在 GPU 上累积，隔一段时间再读取",
    },
    sentences={
        "headline": {
            "en": "{call} waits for the GPU in each step",
            "zh": "{call} 每一步都等待 GPU",
        },
    },
    page={"en": __doc__ or "", "zh": _CHINESE},
    check=_check,
    words=(".item(", ".cpu(", ".tolist(", ".numpy("),
    default=False,
)
