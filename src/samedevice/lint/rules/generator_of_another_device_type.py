"""A random function gets a generator of another device than the one on which it draws.

## What happens

`torch.Generator()` is made without a device and given to `torch.randn(..., device=...)`.

## Why it fails

A generator belongs to one device. One of the host cannot draw on a GPU: "Expected a 'cuda' device type for
generator but found 'cpu'".

## Example

```python
import torch


def noise_like(x: torch.Tensor, seed: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(x.shape, device=x.device, generator=generator)
```

## Use instead

```python
import torch


def noise_like(x: torch.Tensor, seed: int) -> torch.Tensor:
    generator = torch.Generator(device=x.device).manual_seed(seed)
    return torch.randn(x.shape, device=x.device, generator=generator)
```

## Fix safety

Offered for a look: the numbers that are drawn become those of the GPU's generator.

## Known limits

Only a generator that is made in the same function counts, or that the class keeps as the only one in an
attribute; and only a device that is given to the random function itself, or the tensor that it draws beside.

## References

- [torch.Generator](https://docs.pytorch.org/docs/stable/generated/torch.Generator.html)
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from samedevice.lint._rule import Hit, LintRule
from samedevice.lint._source import Call, LintedFile, short
from samedevice.static.tensors import Device, Tensor

_BESIDE = frozenset("randn_like rand_like empty_like multinomial bernoulli poisson".split())
"""Functions that draw where their first argument is."""
_DRAWS = (
    "bernoulli",
    "poisson",
    "randn",
    "rand",
    "randint",
    "randperm",
    "randn_like",
    "rand_like",
    "normal",
    "empty_like",
    "multinomial",
)


def _check(file: LintedFile) -> Iterator[Hit]:
    if "torch.Generator(" not in file.source.text or file.source.changes_default:
        return
    for call in file.calls(*_DRAWS):
        generator, device = call.keyword("generator"), call.keyword("device")
        if generator is None or not file.dotted(call).startswith("torch."):
            continue
        beside = call.node.args[0] if call.node.args and call.name in _BESIDE else None
        asked = device if device is not None else beside
        if asked is None or not _on_host(file, call, generator) or not _elsewhere(file, call, asked):
            continue
        told = short(asked, 30) if device is not None else f"{short(asked, 30)}.device"
        yield Hit(call.node, {"call": short(call.node, 40), "device": told})


def _on_host(file: LintedFile, call: Call, generator: ast.expr) -> bool:
    """Whether a generator is made without a device, there or by the only assignment of its name."""
    made = generator
    if isinstance(generator, ast.Name):
        given = file.assignments(call.around, generator.id)
        if len(given) != 1:
            return False
        made = given[0]
    elif isinstance(generator, ast.Attribute) and ast.unparse(generator.value) == "self":
        kept = _kept(file, call, generator.attr)
        if kept is None:
            return False
        made = kept
    while (
        isinstance(made, ast.Call)
        and isinstance(made.func, ast.Attribute)
        and made.func.attr == "manual_seed"
    ):
        made = made.func.value
    return (
        isinstance(made, ast.Call)
        and file.source.dotted(made.func) == "torch.Generator"
        and not made.args
        and not made.keywords
    )


def _kept(file: LintedFile, call: Call, name: str) -> ast.expr | None:
    """What the class gives an attribute, where it is None or one thing everywhere."""
    owner = file.owner(call.around)
    if owner is None:
        return None
    given = [each for text in file.project.lineage(owner) for each in text.attributes.get(name, ())]
    if any(each.kind != "assigned" or each.several or each.value is None for each in given):
        return None
    values = [each.value for each in given if each.value is not None and not _is_none(each.value)]
    return values[0] if len(values) == 1 else None


def _is_none(value: ast.expr) -> bool:
    return isinstance(value, ast.Constant) and value.value is None


def _elsewhere(file: LintedFile, call: Call, device: ast.expr) -> bool:
    """Whether a device, or that of a tensor, is where something may be on a GPU, and not the host."""
    if isinstance(device, ast.Constant):
        return isinstance(device.value, str) and not device.value.startswith("cpu")
    value = file.told(call.around).values.get(id(device))
    return isinstance(value, Device | Tensor) and (
        value.where.follows or (value.where.kind == "literal" and not value.where.of[0].startswith("cpu"))
    )


_CHINESE = """随机函数收到的生成器，与它要取数的设备不是一种。

## 发生了什么

`torch.Generator()` 创建时没有写设备，却传给了 `torch.randn(..., device=...)`。

## 为什么会失败

一个生成器只属于一种设备，CPU 的生成器不能在 GPU 上取数：“Expected a 'cuda' device type for generator
but found 'cpu'”。

## 示例

```python
import torch


def noise_like(x: torch.Tensor, seed: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(x.shape, device=x.device, generator=generator)
```

## 应当这样写

```python
import torch


def noise_like(x: torch.Tensor, seed: int) -> torch.Tensor:
    generator = torch.Generator(device=x.device).manual_seed(seed)
    return torch.randn(x.shape, device=x.device, generator=generator)
```

## 修复是否安全

修复需要看一眼：取出的随机数会变成 GPU 生成器的随机数。

## 已知局限

只看同一个函数里创建的生成器，或类的属性里唯一的那个；设备只看直接传给随机函数的，或它所参照的张量的。

## 参考

- [torch.Generator](https://docs.pytorch.org/docs/stable/generated/torch.Generator.html)
"""

RULE = LintRule(
    code="SD207",
    name="generator-of-another-device-type",
    title={
        "en": "a generator of the host draws for another device",
        "zh": "CPU 的生成器被用来给别的设备取数",
    },
    meaning={
        "en": "a generator belongs to one type of device and draws only for tensors of that type",
        "zh": "随机数生成器属于一种设备，只能为这种设备上的张量取数",
    },
    cure={
        "en": "make the generator on the device of the tensor",
        "zh": "在张量所在的设备上创建生成器",
    },
    sentences={
        "headline": {
            "en": "{call} draws on {device} with a generator of the host",
            "zh": "{call} 要在 {device} 上取数，生成器却是 CPU 的",
        },
    },
    page={"en": __doc__ or "", "zh": _CHINESE},
    check=_check,
    cause="generator-or-default-device",
    words=("Generator(",),
)
