"""An object keeps the states of all layers, and makes them on one device.

## What happens

The constructor of a cache goes through the layers of a model and makes a tensor for each with the same
`device=`. Each layer takes its own by its number.

## Why it fails

A device map may put the layers on several GPUs. What a layer takes out of the object is on the GPU of the
first one: "Expected all tensors to be on the same device".

## Example

```python
import torch
from torch import nn


class StateCache:
    def __init__(self, config, batch_size, device):
        self.states = []
        for _ in range(config.num_hidden_layers):
            self.states.append(torch.zeros(batch_size, config.hidden_size, device=device))


class Mixer(nn.Module):
    def __init__(self, layer_idx):
        super().__init__()
        self.layer_idx = layer_idx
        self.decay = nn.Parameter(torch.ones(1))

    def forward(self, x, cache):
        return x + self.decay * cache.states[self.layer_idx]
```

## Use instead

```python
import torch
from torch import nn


class StateCache:
    def __init__(self, config, batch_size):
        self.batch_size = batch_size
        self.states = {}

    def of_layer(self, layer_idx, x):
        if layer_idx not in self.states:
            self.states[layer_idx] = torch.zeros(self.batch_size, x.shape[-1], device=x.device)
        return self.states[layer_idx]


class Mixer(nn.Module):
    def __init__(self, layer_idx):
        super().__init__()
        self.layer_idx = layer_idx
        self.decay = nn.Parameter(torch.ones(1))

    def forward(self, x, cache):
        return x + self.decay * cache.of_layer(self.layer_idx, x)
```

## Fix safety

No fix is offered: the object has to be made otherwise.

## Known limits

Off by default: a model that is never split has no need of it. The object's class must make the tensors
itself, in a loop over a number of layers or with that number as the first size, and the file must take a
part of them by the number of a layer. A layer that moves what it takes is not seen.

## References

- [Big model inference](https://huggingface.co/docs/accelerate/concept_guides/big_model_inference)
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from samedevice.lint._rule import Hit, LintRule
from samedevice.lint._source import Around, Call, LintedFile, nodes, short
from samedevice.static.tensors import MAKERS


def _check(file: LintedFile) -> Iterator[Hit]:
    if file.is_test:
        return
    told: set[str] = set()
    for call in file.calls(*MAKERS):
        owner, function = call.around.owner, call.around.function
        if owner is None or function is None or file.in_module_class(call.around):
            continue
        device = call.keyword("device")
        if device is None or not file.dotted(call).startswith("torch."):
            continue
        name = _kept_for_layers(file, call, device)
        key = f"{owner.name}.{name}"
        line = _taken_by_layer(file, name) if name and key not in told else 0
        if line:
            told.add(key)
            values = {"made": short(call.node), "attribute": name, "owner": owner.name}
            yield Hit(call.node, values, (RULE.phrase("taken", line=str(line), attribute=name),))


def _kept_for_layers(file: LintedFile, call: Call, device: ast.expr) -> str:
    """The attribute of the object that keeps what a call makes for each layer; empty where none does."""
    loop = _loop_of_layers(file, call)
    if loop is not None:
        own = {each.id for each in nodes(loop.target) if isinstance(each, ast.Name)}
        if any(isinstance(each, ast.Name) and each.id in own for each in nodes(device)):
            return ""
    elif not (call.node.args and _counts_layers(_first_size(call.node))):
        return ""
    return _attribute(call.around, call.node)


def _loop_of_layers(file: LintedFile, call: Call) -> ast.For | ast.comprehension | None:
    for loop in reversed(call.around.loops):
        if isinstance(loop, ast.For) and _counts_layers(loop.iter):
            return loop
    node: ast.AST | None = call.node
    while node is not None and not isinstance(node, ast.stmt):
        node = file.parents.get(id(node))
        for each in getattr(node, "generators", ()):
            if isinstance(each, ast.comprehension) and _counts_layers(each.iter):
                return each
    return None


def _counts_layers(node: ast.expr) -> bool:
    named = (getattr(each, "attr", None) or getattr(each, "id", "") for each in nodes(node))
    return any(re.search(r"layer|block", name.lower()) for name in named if isinstance(name, str))


def _first_size(node: ast.Call) -> ast.expr:
    first = node.args[0]
    return first.elts[0] if isinstance(first, ast.Tuple | ast.List) and first.elts else first


def _attribute(around: Around, node: ast.Call) -> str:
    """The attribute of `self` that gets it: in its own statement, or by the name that it is given there."""
    statement, function = around.statement, around.function
    if statement is None or function is None:
        return ""
    own = _of_self(statement)
    if own or not (isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name)):
        return own
    name = statement.targets[0].id
    for each in nodes(function):
        if isinstance(each, ast.stmt) and each is not statement and not hasattr(each, "body"):
            inside = nodes(each)
            if any(isinstance(part, ast.Name) and part.id == name for part in inside) and _of_self(each):
                return _of_self(each)
    return ""


def _of_self(statement: ast.stmt) -> str:
    """`name` of `self.name = ...`, `self.name[...] = ...`, `self.name.append(...)`, `self.name += [...]`."""
    match statement:
        case ast.Assign(targets=[target]) | ast.AnnAssign(target=target) | ast.AugAssign(target=target):
            place = target.value if isinstance(target, ast.Subscript) else target
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=place))):
            pass
        case _:
            return ""
    match place:
        case ast.Attribute(value=ast.Name(id="self"), attr=name):
            return name
    return ""


def _taken_by_layer(file: LintedFile, name: str) -> int:
    """The line at which a part of an attribute is taken by the number of a layer; 0 where none is."""
    wanted = re.compile(rf"\.{re.escape(name)}\[[^\]\n]*(layer|block)")
    found = [number for number, line in enumerate(file.source.lines, 1) if wanted.search(line)]
    return found[-1] if found else 0


_CHINESE = """一个对象保存所有层的状态，并把它们都创建在同一个设备上。

## 发生了什么

缓存的构造函数遍历模型的各层，用同一个 `device=` 为每层创建一个张量。每一层按自己的编号取用。

## 为什么会失败

device map 可能把各层放在多个 GPU 上，而某一层从对象里取到的张量在第一层的 GPU 上：“Expected all tensors
to be on the same device”。

## 示例

```python
import torch
from torch import nn


class StateCache:
    def __init__(self, config, batch_size, device):
        self.states = []
        for _ in range(config.num_hidden_layers):
            self.states.append(torch.zeros(batch_size, config.hidden_size, device=device))


class Mixer(nn.Module):
    def __init__(self, layer_idx):
        super().__init__()
        self.layer_idx = layer_idx
        self.decay = nn.Parameter(torch.ones(1))

    def forward(self, x, cache):
        return x + self.decay * cache.states[self.layer_idx]
```

## 应当这样写

```python
import torch
from torch import nn


class StateCache:
    def __init__(self, config, batch_size):
        self.batch_size = batch_size
        self.states = {}

    def of_layer(self, layer_idx, x):
        if layer_idx not in self.states:
            self.states[layer_idx] = torch.zeros(self.batch_size, x.shape[-1], device=x.device)
        return self.states[layer_idx]


class Mixer(nn.Module):
    def __init__(self, layer_idx):
        super().__init__()
        self.layer_idx = layer_idx
        self.decay = nn.Parameter(torch.ones(1))

    def forward(self, x, cache):
        return x + self.decay * cache.of_layer(self.layer_idx, x)
```

## 修复是否安全

不提供修复：对象需要换一种方式创建。

## 已知局限

默认不启用：从不拆分的模型不需要它。张量必须由对象自己的类创建，在遍历层数的循环里，或者以层数作为第一个尺
寸；文件里必须按层的编号取用其中一部分。取用后自己移动的层看不出来。

## 参考

- [Big model inference](https://huggingface.co/docs/accelerate/concept_guides/big_model_inference)
"""

RULE = LintRule(
    code="SD228",
    name="state-of-layers-on-one-device",
    title={
        "en": "an object makes the states of all layers on one device",
        "zh": "一个对象把所有层的状态创建在同一个设备上",
    },
    meaning={
        "en": "each layer takes its state from the device of one of them, though a map may part them",
        "zh": "各层的状态都在其中一层的设备上，而 device map 可能把各层分开",
    },
    cure={
        "en": "make each state when its layer asks for it, with the device of that layer's input",
        "zh": "等到某一层要用时再创建它的状态，设备取该层的输入所在的设备",
    },
    sentences={
        "headline": {
            "en": "{made} puts {attribute} of all layers that {owner} keeps on one device",
            "zh": "{made} 把 {owner} 保存的所有层的 {attribute} 放在同一个设备上",
        },
        "taken": {
            "en": "line {line} takes {attribute} of one layer, which may be on another GPU",
            "zh": "第 {line} 行取用某一层的 {attribute}，该层可能在另一个 GPU 上",
        },
    },
    page={"en": __doc__ or "", "zh": _CHINESE},
    check=_check,
    default=False,
    cause="cache-or-beam-state-on-wrong-device",
    words=("layer", "block"),
)
