"""A module keeps a tensor as a plain attribute, which `.to()` never moves.

## What happens

`self.scale = torch.ones(8)` in `__init__` makes neither a parameter nor a buffer. A method uses it together
with what follows the module or its input.

## Why it fails

`model.to(device)`, a device map and loading move parameters and buffers alone. The attribute stays on the
host, and the method fails on a GPU.

## Example

```python
import torch
from torch import nn


class Scaled(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = torch.linspace(0, 1, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.scale
```

## Use instead

```python
import torch
from torch import nn


class Scaled(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("scale", torch.linspace(0, 1, 8), persistent=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.scale
```

## Fix safety

Safe: a buffer that is not persistent is in no checkpoint, so old ones still load.

## Known limits

Only attributes that the constructor leaves on the host, itself or by a private method, and that no other
method puts elsewhere before they are used; and classes that move nothing themselves. Classes that are no
modules count, too: nothing moves what they keep. Of a part, and of a class of another file, only what it
makes on one line is followed.

## References

- [Module.register_buffer](https://docs.pytorch.org/docs/stable/generated/torch.nn.Module.html#torch.nn.Module.register_buffer)
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import partial

from samedevice.diagnosis.fixes import swapped
from samedevice.lint._meetings import Pair, pairs
from samedevice.lint._rule import Hit, LintRule, Repair
from samedevice.lint._source import (
    CALLERS_DECIDE,
    Around,
    Call,
    Function,
    LintedFile,
    nodes,
    short,
)
from samedevice.static.tensors import MAKERS, Tensor


def _check(file: LintedFile) -> Iterator[Hit]:
    if file.is_test or file.source.changes_default:
        return
    makers = {id(call.node): call for call in file.calls(*MAKERS) if call.around.owner is not None}
    classes = {id(call.around.owner) for call in makers.values()}
    kept = {name for call in makers.values() for name in _given_names(call)}
    elsewhere = file.kept_elsewhere
    kept = {name for name in kept if file.source.reads_of_another(name)}
    told: set[int] = set()
    for function, around in file.source.functions:
        if function.name in CALLERS_DECIDE:
            continue
        if id(around.owner) not in classes and not _reads_of_another(function, kept):
            if not elsewhere or around.owner is None or elsewhere.isdisjoint(_read(function)):
                continue
        inside = Around(function, around.owner)
        if around.owner is not None and file.moves_itself(inside):
            continue
        for pair in pairs(file, inside, _is_kept):
            maker = makers.get(id(pair.stray.made))
            if maker is None and pair.inside is None and id(pair.stray.made) not in told:
                yield from _brought(file, inside, pair, told)
            if maker is None or id(maker.node) in told:
                continue
            name = _attribute_name(file, inside, pair.stray_node, pair.stray)
            statement = maker.around.statement
            if not name or statement is None:
                continue
            told.add(id(maker.node))
            home = Around(maker.around.function, maker.around.owner)
            module = file.in_module_class(home) and isinstance(statement, ast.Assign)
            yield Hit(
                statement,
                {"attribute": f"self.{name}"},
                (pair.told(file, RULE, other=short(pair.placed_node, 40)),),
                partial(_repair, file, statement, name) if module else None,
            )


def _brought(file: LintedFile, around: Around, pair: Pair, told: set[int]) -> Iterator[Hit]:
    """A tensor that a class of another file keeps."""
    home = file.reading.maker_of(pair.stray)
    name = _attribute_name(file, around, pair.stray_node, pair.stray)
    made = pair.stray.made
    if home is None or home is file.source or not name or made is None:
        return
    told.add(id(made))
    at = str(getattr(made, "lineno", 0))
    where = RULE.phrase("made-elsewhere", file=home.name, line=at, made=short(made))
    meets = pair.told(file, RULE, other=short(pair.placed_node, 40))
    yield Hit(pair.stray_node, {"attribute": short(pair.stray_node)}, (where, meets))


def _read(function: Function) -> set[str]:
    return {node.attr for node in nodes(function) if isinstance(node, ast.Attribute)}


def _given_names(call: Call) -> list[str]:
    """The attributes of `self` that the statement of a call gives a value."""
    statement = call.around.statement
    if call.around.owner is None or not isinstance(statement, ast.Assign | ast.AnnAssign):
        return []
    targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
    return [each.attr for each in targets if isinstance(each, ast.Attribute)]


def _reads_of_another(function: Function, names: set[str]) -> bool:
    """Whether a function reads an attribute of one of these names of another object: `self.part.name`."""
    return bool(names) and any(
        isinstance(node, ast.Attribute)
        and node.attr in names
        and not (isinstance(node.value, ast.Name) and node.value.id == "self")
        for node in nodes(function)
    )


def _attribute_name(file: LintedFile, around: Around, node: ast.expr, stray: Tensor) -> str:
    """The attribute that a tensor came from."""
    if isinstance(node, ast.Attribute):
        return node.attr
    values = file.told(around).values
    assert around.function is not None
    for each in nodes(around.function):
        match each:
            case ast.Attribute(attr=name):
                value = values.get(id(each))
                if isinstance(value, Tensor) and value.role == "attribute" and value.made is stray.made:
                    return name
    return ""


def _is_kept(tensor: Tensor) -> bool:
    stays = tensor.where.unplaced
    return stays and tensor.role == "attribute"


def _repair(file: LintedFile, statement: ast.stmt, name: str) -> Repair | None:
    match statement:
        case ast.Assign(targets=[ast.Attribute(value=ast.Name(id="self"), attr=attribute)], value=given) if (
            attribute == name
        ):
            value = file.script.text(given)
            text = f'self.register_buffer("{name}", {value}, persistent=False)'
            return Repair(RULE.phrase("fix", attribute=f"self.{name}"), swapped(file.script, statement, text))
    return None


_CHINESE = """模块把张量放在普通属性里，`.to()` 不会移动它。

## 发生了什么

`__init__` 里的 `self.scale = torch.ones(8)` 既不是参数也不是缓冲区。某个方法把它与跟随模块或输入的张量
一起使用。

## 为什么会失败

`model.to(device)`、device_map 和加载权重只移动参数与缓冲区。这个属性留在内存里，到了 GPU 上这个方法就会
失败。

## 示例

```python
import torch
from torch import nn


class Scaled(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = torch.linspace(0, 1, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.scale
```

## 应当这样写

```python
import torch
from torch import nn


class Scaled(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("scale", torch.linspace(0, 1, 8), persistent=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.scale
```

## 修复是否安全

安全：不持久的缓冲区不进入检查点，旧检查点照样能加载。

## 已知局限

只看构造函数（或它的私有方法）留在内存里、在使用之前没有别的方法放到别处的属性，以及自己不做移动的类。不是模块的
类也算：没有谁会移动它们保存的张量。对于模块的部分和其他文件里的类，只追踪写在一行里的创建。

## 参考

- [Module.register_buffer](https://docs.pytorch.org/docs/stable/generated/torch.nn.Module.html#torch.nn.Module.register_buffer)
"""

RULE = LintRule(
    code="SD208",
    name="tensor-as-plain-attribute",
    title={
        "en": "a module keeps a tensor where .to() does not reach it",
        "zh": "模块里的张量 .to() 够不着",
    },
    meaning={
        "en": "`.to()` moves parameters and buffers, and no other attributes",
        "zh": "`.to()` 移动参数和缓冲区，不移动其他属性",
    },
    cure={
        "en": "register it as a buffer",
        "zh": "把它注册为缓冲区",
    },
    sentences={
        "headline": {
            "en": "{attribute} stays on the host when its module is moved",
            "zh": "移动模块时 {attribute} 仍留在内存里",
        },
        "meets": {
            "en": "line {line} uses it together with {other}",
            "zh": "第 {line} 行把它与 {other} 一起使用",
        },
        "meets-elsewhere": {
            "en": "line {line} of {file} uses it together with {other}",
            "zh": "{file} 第 {line} 行把它与 {other} 一起使用",
        },
        "made-elsewhere": {
            "en": "line {line} of {file} makes it: {made}",
            "zh": "{file} 第 {line} 行创建了它：{made}",
        },
        "fix": {
            "en": "make {attribute} a buffer",
            "zh": "把 {attribute} 改成缓冲区",
        },
    },
    page={"en": __doc__ or "", "zh": _CHINESE},
    check=_check,
    cause="module-left-on-other-device",
    words=("self.",),
)
