"""A module copies itself into a new one that stays on the host.

## What happens

`__deepcopy__`, `clone` or a method like them builds a new object of the module's class and gives it back. Not
all of its parameters and buffers are then replaced by copies of the module's own.

## Why it fails

A constructor makes parameters on the default device. The module is on a GPU, its copy, or a part of it, on
the host: the next call with the same input fails.

## Example

```python
import torch
from torch import nn


class Scale(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.size = size
        self.weight = nn.Parameter(torch.ones(size))

    def clone(self):
        copy = Scale(self.size)
        copy.load_state_dict(self.state_dict())
        return copy
```

## Use instead

```python
import torch
from torch import nn


class Scale(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.size = size
        self.weight = nn.Parameter(torch.ones(size))

    def clone(self):
        copy = Scale(self.size).to(self.weight.device)
        copy.load_state_dict(self.state_dict())
        return copy
```

## Fix safety

No fix is offered: parts of a module may be on several devices.

## Known limits

Only classes whose parameters and buffers are given in the class itself or one that it derives from, and only
methods that build the class by its name, `type(self)` or `self.__class__`.

## References

- [Module.to](https://docs.pytorch.org/docs/stable/generated/torch.nn.Module.html#torch.nn.Module.to)
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from samedevice.lint._rule import Hit, LintRule
from samedevice.lint._source import Around, ClassText, Function, LintedFile, called, nodes, short

_COPIERS = ("__deepcopy__", "__copy__", "clone", "copy")
_MOVERS = frozenset(("to", "cuda", "to_empty", "type_as", "_apply"))


def _check(file: LintedFile) -> Iterator[Hit]:
    if file.is_test or file.source.changes_default:
        return
    for function, around in file.source.functions:
        owner = file.owner(around)
        if function.name not in _COPIERS or owner is None or not file.in_module_class(around):
            continue
        made = _made_anew(file, function, owner)
        kept = _parameters(file, owner)
        if made is None or not kept or _places(function):
            continue
        name, call = made
        left = sorted(kept - _replaced(function, name))
        if left:
            yield Hit(call, {"made": short(call), "attribute": f"self.{left[0]}"})


def _made_anew(file: LintedFile, function: Function, owner: ClassText) -> tuple[str, ast.Call] | None:
    """The name of the new object that is given back, and the call that builds it."""
    given = {_returned(node) for node in nodes(function)}
    for node in nodes(function):
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call() as call) if name in given:
                built = ast.unparse(call.func)
                if built in (owner.name, "type(self)", "self.__class__"):
                    return (
                        (name, call)
                        if len(file.assignments(Around(function, owner.node), name)) == 1
                        else None
                    )
    return None


def _returned(node: ast.AST) -> str:
    match node:
        case ast.Return(value=ast.Name(id=name)):
            return name
    return ""


def _parameters(file: LintedFile, owner: ClassText) -> set[str]:
    """The attributes that are parameters or buffers for sure."""
    return {
        name
        for text in file.project.lineage(owner)
        for name, given in text.attributes.items()
        if any(each.kind in ("parameter", "buffer") and not _is_none(each.value) for each in given)
    }


def _is_none(value: ast.expr | None) -> bool:
    return isinstance(value, ast.Constant) and value.value is None


def _places(function: Function) -> bool:
    """Whether a method says anywhere where something is to be."""
    return any(
        (isinstance(node, ast.Call) and called(node) in _MOVERS)
        or (isinstance(node, ast.Call) and any(each.arg in ("device", None) for each in node.keywords))
        or (isinstance(node, ast.Attribute) and node.attr in ("__dict__", "_parameters", "_buffers"))
        for node in nodes(function)
    )


def _replaced(function: Function, name: str) -> set[str]:
    """The attributes of the new object that are given another value, whatever happens."""
    return {
        target.attr
        for statement in function.body
        if isinstance(statement, ast.Assign)
        for target in statement.targets
        if isinstance(target, ast.Attribute)
        and isinstance(target.value, ast.Name)
        and target.value.id == name
    }


_CHINESE = """模块复制自己时新建了一个对象，而这个对象留在内存里。

## 发生了什么

`__deepcopy__`、`clone` 之类的方法新建一个同类对象并返回，它的参数和缓冲区并没有全部换成原模块的副本。

## 为什么会失败

构造函数在默认设备上创建参数。原模块在 GPU 上，副本或它的一部分却在内存里，再用同样的输入调用就会失败。

## 示例

```python
import torch
from torch import nn


class Scale(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.size = size
        self.weight = nn.Parameter(torch.ones(size))

    def clone(self):
        copy = Scale(self.size)
        copy.load_state_dict(self.state_dict())
        return copy
```

## 应当这样写

```python
import torch
from torch import nn


class Scale(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.size = size
        self.weight = nn.Parameter(torch.ones(size))

    def clone(self):
        copy = Scale(self.size).to(self.weight.device)
        copy.load_state_dict(self.state_dict())
        return copy
```

## 修复是否安全

不提供修复：一个模块的各部分可能在不同的设备上。

## 已知局限

只看参数和缓冲区写在本类或其基类里的模块，以及用类名、`type(self)` 或 `self.__class__` 新建对象的方法。

## 参考

- [Module.to](https://docs.pytorch.org/docs/stable/generated/torch.nn.Module.html#torch.nn.Module.to)
"""

RULE = LintRule(
    code="SD221",
    name="copy-made-on-host",
    title={
        "en": "a module's copy of itself stays on the host",
        "zh": "模块复制出来的副本留在内存里",
    },
    meaning={
        "en": "a constructor makes parameters on the default device, not where the copied module is",
        "zh": "构造函数在默认设备上创建参数，而不是在被复制的模块所在的设备上",
    },
    cure={
        "en": "move the new module to the device of the old one before its values are copied",
        "zh": "复制数值之前，先把新模块移到原模块所在的设备",
    },
    sentences={
        "headline": {
            "en": "{made} makes {attribute} of the copy on the host",
            "zh": "{made} 把副本的 {attribute} 创建在内存里",
        },
    },
    page={"en": __doc__ or "", "zh": _CHINESE},
    check=_check,
    cause="module-left-on-other-device",
    words=_COPIERS,
)
