"""A cache gives back tensors of the device on which they were first asked for.

## What happens

A function behind `functools.lru_cache` makes a tensor on the default device, or a method keeps one in an
attribute until its size no longer fits.

## Why it fails

The key says nothing of the device. Who asks from another GPU, or after the module was moved, gets the
tensor of the first one.

## Example

```python
from functools import lru_cache

import torch


@lru_cache
def causal_mask(length: int) -> torch.Tensor:
    return torch.ones(length, length).tril()
```

## Use instead

```python
from functools import lru_cache

import torch


@lru_cache
def causal_mask(length: int, device: torch.device) -> torch.Tensor:
    return torch.ones(length, length, device=device).tril()
```

## Fix safety

No fix is offered: whether the device becomes a part of the key, or the result is moved, is for a person to
say.

## Known limits

Attributes that are registered as buffers, and caches whose condition or key speaks of the device, are left
out; so is what is moved where it is read.

## References

- [functools.lru_cache](https://docs.python.org/3/library/functools.html#functools.lru_cache)
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from samedevice.lint._rule import Hit, LintRule
from samedevice.lint._source import Around, Function, LintedFile, called, nodes
from samedevice.static.tensors import Tensor, device_parameters, tensor_parameters

_CACHES = frozenset(("lru_cache", "cache"))


def _check(file: LintedFile) -> Iterator[Hit]:
    if file.is_test:
        return
    for function, around in file.source.functions:
        inside = Around(function, around.owner)
        if any(called(each) in _CACHES for each in function.decorator_list):
            if (
                not device_parameters(function)
                and not tensor_parameters(function)
                and _gives_made(file, inside)
            ):
                yield Hit(function, {"kept": function.name})
        elif function.name != "__init__" and around.owner is not None and file.in_module_class(inside):
            yield from _attributes(file, function, inside)


def _gives_made(file: LintedFile, around: Around) -> bool:
    returned = [each for each in file.told(around).returned if isinstance(each, Tensor)]
    return any(each.where.kind == "default" and each.scalar is False for each in returned)


def _attributes(file: LintedFile, function: Function, around: Around) -> Iterator[Hit]:
    """Attributes that are made where an argument is, and only when they do not fit by size."""
    for node in nodes(function):
        if not isinstance(node, ast.If) or node.orelse or not _asks_for_size(node.test):
            continue
        for each in node.body:
            match each:
                case ast.Assign(targets=[ast.Attribute(value=ast.Name(id="self"), attr=name)], value=value):
                    tensor = file.told(around).values.get(id(value))
                    placed = isinstance(tensor, Tensor) and tensor.where.kind == "same"
                    if (
                        placed
                        and _is_cache(file, around, name)
                        and f"self.{name}.to(" not in file.source.text
                    ):
                        yield Hit(each, {"kept": f"self.{name}"})


def _asks_for_size(test: ast.expr) -> bool:
    """Whether a condition compares an attribute's size, or asks whether it is there, and not where."""
    text = ast.unparse(test)
    if "device" in text or "self." not in text:
        return False
    return isinstance(test, ast.Compare) or (isinstance(test, ast.BoolOp) and isinstance(test.op, ast.Or))


def _is_cache(file: LintedFile, around: Around, name: str) -> bool:
    """Whether an attribute is no buffer, no total that goes on with what comes in, and nothing that a method
    of the class forgets again.
    """
    owner = file.owner(around)
    if owner is None:
        return False
    given = [each for text in file.project.lineage(owner) for each in text.attributes.get(name, ())]
    return all(
        each.kind == "assigned"
        and not isinstance(each.node, ast.AugAssign)
        and not (_is_none(each.value) and each.function.name != "__init__")
        for each in given
    )


def _is_none(value: ast.expr | None) -> bool:
    return isinstance(value, ast.Constant) and value.value is None


_CHINESE = """缓存返回的张量，停留在第一次创建时的设备上。

## 发生了什么

带 `functools.lru_cache` 的函数在默认设备上创建张量；或者某个方法把张量存在属性里，只有大小不够时才重建。

## 为什么会失败

缓存的键里没有设备。从另一块 GPU 来取的，或者模块移动之后来取的，拿到的仍是第一次那个设备上的张量。

## 示例

```python
from functools import lru_cache

import torch


@lru_cache
def causal_mask(length: int) -> torch.Tensor:
    return torch.ones(length, length).tril()
```

## 应当这样写

```python
from functools import lru_cache

import torch


@lru_cache
def causal_mask(length: int, device: torch.device) -> torch.Tensor:
    return torch.ones(length, length, device=device).tril()
```

## 修复是否安全

不提供修复：是把设备加进键里，还是取出后再移动，要由人决定。

## 已知局限

注册为缓冲区的属性，以及条件或键里提到设备的缓存，都不算；取出时会移动的也不算。

## 参考

- [functools.lru_cache](https://docs.python.org/3/library/functools.html#functools.lru_cache)
"""

RULE = LintRule(
    code="SD209",
    name="cache-keyed-without-device",
    title={
        "en": "a cache gives tensors of the first device",
        "zh": "缓存给出的是第一个设备上的张量",
    },
    meaning={
        "en": "the key of the cache has no device",
        "zh": "缓存的键里没有设备",
    },
    cure={
        "en": "make the device a part of the key, or move the result",
        "zh": "把设备加进键里，或者移动取出的结果",
    },
    sentences={
        "headline": {
            "en": "{kept} gives back the tensor of the first device that asked",
            "zh": "{kept} 返回的是第一次请求时那个设备上的张量",
        },
    },
    page={"en": __doc__ or "", "zh": _CHINESE},
    check=_check,
    cause="cache-or-beam-state-on-wrong-device",
    words=("lru_cache", "functools.cache", "import cache", "is None", "self."),
    default=False,
)
