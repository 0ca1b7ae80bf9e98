"""A constructor runs a module that it is given with a tensor of the host.

## What happens

`__init__` sends a made-up input through a module that came in as an argument, to learn a size or to copy some
of its weights: `net(torch.zeros(1, 3, 32, 32))`.

## Why it fails

What the constructor itself makes is on the host then, but the module that it is given may be on a GPU
already: as a rule somebody has loaded it there.

## Example

```python
import torch
from torch import nn


class Head(nn.Module):
    def __init__(self, body: nn.Module):
        super().__init__()
        width = body(torch.zeros(1, 3, 32, 32)).shape[1]
        self.body = body
        self.last = nn.Linear(width, 10)

    def forward(self, x):
        return self.last(self.body(x))
```

## Use instead

```python
import torch
from torch import nn


class Head(nn.Module):
    def __init__(self, body: nn.Module):
        super().__init__()
        device = next(body.parameters()).device
        width = body(torch.zeros(1, 3, 32, 32, device=device)).shape[1]
        self.body = body
        self.last = nn.Linear(width, 10)

    def forward(self, x):
        return self.last(self.body(x))
```

## Fix safety

No fix is offered: a module without parameters has no `next(body.parameters())`.

## Known limits

Only modules that are known as such by their annotation, or by a use that only modules have (`.parameters()`,
`.children()`), and constructors that name no device. A constructor that runs its own object counts where a
part of it was given. The module may be on the host whenever this is called: the rule is off by default.

## References

- [Module.parameters](https://docs.pytorch.org/docs/stable/generated/torch.nn.Module.html#torch.nn.Module.parameters)
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from samedevice.lint._rule import Hit, LintRule
from samedevice.lint._source import Around, ClassText, Function, LintedFile, called, nodes, short
from samedevice.static.tensors import MAKERS, Tensor

_OF_MODULES = frozenset(
    "parameters named_parameters modules named_modules children named_children state_dict load_state_dict "
    "register_forward_hook eval train get_input_embeddings".split()
)
"""Methods that only modules have, as a rule."""
_DEEPEST = 2


def _check(file: LintedFile) -> Iterator[Hit]:
    if file.is_test or file.source.changes_default:
        return
    done: set[int] = set()
    for call in file.calls(*MAKERS):
        function = call.around.function
        if function is None or function.name != "__init__" or call.around.owner is None:
            continue
        if id(function) not in done and not _names_device(function):
            done.add(id(function))
            yield from _in_constructor(file, file.source.class_text(call.around.owner), function)


def _in_constructor(file: LintedFile, text: ClassText, function: Function) -> Iterator[Hit]:
    values = file.told(Around(function, text.node)).values
    for node in nodes(function):
        if isinstance(node, ast.Call) and node.args and (run := _run(file, text, function, node)):
            given = values.get(id(node.args[0]))
            if isinstance(given, Tensor) and given.where.unplaced and given.role == "made":
                yield Hit(node, {"run": run, "made": short(node.args[0], 40)}, confidence="guess")


def _run(file: LintedFile, text: ClassText, function: Function, node: ast.Call) -> str:
    """The module that came in and is run by a call of the constructor; empty where there is none."""
    names = [each.arg for each in (*function.args.args, *function.args.kwonlyargs)][1:]
    match node.func:
        case ast.Name(id=name) if name in names:
            wanted = [name]
        case ast.Name(id="self") | ast.Attribute(value=ast.Name(id="self"), attr="forward"):
            wanted = names
        case ast.Attribute(value=ast.Name(id="self"), attr=attribute):
            kept = [each.value for each in text.attributes.get(attribute, ())]
            wanted = [each.id for each in kept if isinstance(each, ast.Name) and each.id in names]
        case _:
            wanted = []
    return next((each for each in wanted if _is_module(file, text, function, each)), "")


def _is_module(file: LintedFile, text: ClassText, function: Function, name: str, depth: int = 0) -> bool:
    """Whether a constructor's argument is a module, by its annotation or by what is done with it."""
    for each in (*function.args.args, *function.args.kwonlyargs):
        if each.arg == name and each.annotation is not None and _is_annotated(file, text, each.annotation):
            return True
    own = {
        attribute
        for attribute, given in text.attributes.items()
        for each in given
        if each.function is function and isinstance(each.value, ast.Name) and each.value.id == name
    }
    if any(_is_used_as_module(node, name, own) for method in text.methods.values() for node in nodes(method)):
        return True
    if depth >= _DEEPEST:
        return False
    return any(
        _is_module(file, part, part.methods["__init__"], inner, depth + 1)
        for node in nodes(function)
        if isinstance(node, ast.Call)
        for part, inner in _handed_on(file, text, node, name)
    )


def _is_annotated(file: LintedFile, text: ClassText, annotation: ast.expr) -> bool:
    name = text.source.dotted(annotation)
    if name.rpartition(".")[2] == "Module":
        return True
    own = file.project.class_of(text.source, name) if name else None
    return own is not None and file.project.is_module(own)


def _is_used_as_module(node: ast.AST, name: str, attributes: set[str]) -> bool:
    """`net.parameters()`, `self.net.children()`, `net(x).detach()`."""
    if not isinstance(node, ast.Attribute):
        return False
    match node.value:
        case ast.Name(id=owner):
            return owner == name and node.attr in _OF_MODULES
        case ast.Attribute(value=ast.Name(id="self"), attr=owner):
            return owner in attributes and node.attr in _OF_MODULES
        case ast.Call(func=ast.Name(id=owner)):
            return owner == name and node.attr == "detach"
    return False


def _handed_on(
    file: LintedFile, text: ClassText, node: ast.Call, name: str
) -> Iterator[tuple[ClassText, str]]:
    """The module's class whose constructor is given an argument, with what it is called there."""
    part = file.project.class_of(text.source, text.source.dotted(node.func)) if called(node) else None
    if part is None or "__init__" not in part.methods or not file.project.is_module(part):
        return
    names = [each.arg for each in part.methods["__init__"].args.args][1:]
    for own, each in zip(names, node.args, strict=False):
        if isinstance(each, ast.Name) and each.id == name:
            yield part, own
    for keyword in node.keywords:
        if isinstance(keyword.value, ast.Name) and keyword.value.id == name and keyword.arg in names:
            yield part, keyword.arg


def _names_device(function: Function) -> bool:
    """Whether a constructor says anything of devices."""
    return any(
        _sends(node) or any("device" in str(getattr(node, field, "")) for field in ("attr", "id", "arg"))
        for node in nodes(function)
    )


def _sends(node: ast.AST) -> bool:
    """Whether a call moves something, and not only to another type of numbers."""
    match node:
        case ast.Call(func=ast.Attribute(attr="cuda" | "cpu")):
            return True
        case ast.Call(func=ast.Attribute(attr="to"), args=given, keywords=named):
            types = [ast.unparse(each).startswith("torch.") for each in given]
            return not all(types) or any(each.arg != "dtype" for each in named)
    return False


_CHINESE = """构造函数用内存里的张量运行传进来的模块。

## 发生了什么

`__init__` 把一个编造的输入送进作为参数传来的模块，为了得到某个尺寸，或者复制它的一部分权重：
`net(torch.zeros(1, 3, 32, 32))`。

## 为什么会失败

构造函数自己创建的张量这时在内存里，而传进来的模块可能已经在 GPU 上：通常有人已经把它加载到那里。

## 示例

```python
import torch
from torch import nn


class Head(nn.Module):
    def __init__(self, body: nn.Module):
        super().__init__()
        width = body(torch.zeros(1, 3, 32, 32)).shape[1]
        self.body = body
        self.last = nn.Linear(width, 10)

    def forward(self, x):
        return self.last(self.body(x))
```

## 应当这样写

```python
import torch
from torch import nn


class Head(nn.Module):
    def __init__(self, body: nn.Module):
        super().__init__()
        device = next(body.parameters()).device
        width = body(torch.zeros(1, 3, 32, 32, device=device)).shape[1]
        self.body = body
        self.last = nn.Linear(width, 10)

    def forward(self, x):
        return self.last(self.body(x))
```

## 修复是否安全

不提供修复：没有参数的模块没有 `next(body.parameters())`。

## 已知局限

只看由注解，或者由只有模块才有的用法（`.parameters()`、`.children()`）可知是模块的参数，以及没有提到设备的构造
函数。构造函数运行自己的对象时，只要它的某个部分是传进来的，也算。调用时模块可能还在内存里，所以这条规则默认
不开启。

## 参考

- [Module.parameters](https://docs.pytorch.org/docs/stable/generated/torch.nn.Module.html#torch.nn.Module.parameters)
"""

RULE = LintRule(
    code="SD224",
    name="given-module-run-on-host",
    title={
        "en": "a constructor runs a given module with a tensor of the host",
        "zh": "构造函数用内存里的张量运行传进来的模块",
    },
    meaning={
        "en": "a module that comes in may be on a GPU already",
        "zh": "传进来的模块可能已经在 GPU 上",
    },
    cure={
        "en": "make the input on the module's device: `next(module.parameters()).device`",
        "zh": "在模块所在的设备上创建输入：`next(module.parameters()).device`",
    },
    sentences={
        "headline": {
            "en": "{made} is on the host and goes through {run}, which may be on a GPU",
            "zh": "{made} 在内存里，却要经过可能在 GPU 上的 {run}",
        },
    },
    page={"en": __doc__ or "", "zh": _CHINESE},
    check=_check,
    cause="tensor-created-on-wrong-device",
    words=("__init__",),
    default=False,
)
