"""`_no_split_modules` leaves out a block that joins what its parts give.

## What happens

A model for `from_pretrained(device_map=...)` is built of repeated blocks that add their input to what a part
gave, or join two of their parts, and no list of the model names them as blocks to keep whole: there is no
list, or it names others.

## Why it fails

Accelerate fills one GPU after the other, and what the list does not name it may cut: the first half of a
block on `cuda:0`, the rest on `cuda:1`. Hooks move what goes into a part. They do not move what the block
itself joins with what the part gave, so two devices meet. transformers 5 places such a model without a word;
transformers 4 refused a model without any list.

## Example

```python
from torch import nn
from transformers import PreTrainedModel


class MyBlock(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.attention = nn.Linear(config.width, config.width)
        self.output = nn.Linear(config.width, config.width)

    def forward(self, hidden_states):
        residual = hidden_states
        hidden_states = self.output(self.attention(hidden_states))
        return hidden_states + residual


class MyModel(PreTrainedModel):
    base_model_prefix = "my"

    def __init__(self, config):
        super().__init__(config)
        self.blocks = nn.ModuleList([MyBlock(config) for _ in range(config.depth)])

    def forward(self, hidden_states):
        for block in self.blocks:
            hidden_states = block(hidden_states)
        return hidden_states
```

## Use instead

```python
from torch import nn
from transformers import PreTrainedModel


class MyBlock(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.attention = nn.Linear(config.width, config.width)
        self.output = nn.Linear(config.width, config.width)

    def forward(self, hidden_states):
        residual = hidden_states
        hidden_states = self.output(self.attention(hidden_states))
        return hidden_states + residual


class MyModel(PreTrainedModel):
    _no_split_modules = ["MyBlock"]
    base_model_prefix = "my"

    def __init__(self, config):
        super().__init__(config)
        self.blocks = nn.ModuleList([MyBlock(config) for _ in range(config.depth)])

    def forward(self, hidden_states):
        for block in self.blocks:
            hidden_states = block(hidden_states)
        return hidden_states
```

## Fix safety

Safe: no number changes. The block must then fit on one GPU as a whole.

## Known limits

Only blocks of the file that are built in a loop, and joins that stand in the file. Lists that are computed,
and bases of other packages than `PreTrainedModel` itself, are taken to name everything. Files of which
transformers generates others (`modular_x.py`) are left out.

## References

- [Big model inference](https://huggingface.co/docs/accelerate/usage_guides/big_modeling)
"""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator

from samedevice.diagnosis.fixes import swapped, with_line_before
from samedevice.lint._joins import Join, Weights, joins
from samedevice.lint._rule import Hit, LintRule, Repair
from samedevice.lint._source import Around, ClassText, LintedFile, nodes, short
from samedevice.lint._spread import NO_SPLIT, Named, classes_named, inside, lists_of, models_in


def _check(file: LintedFile) -> Iterator[Hit]:
    models = [] if file.is_test or _is_template(file) else models_in(file)
    named = _named(file, models)
    if named is None or not models:
        return
    kept = inside(file, (str(name.value) for each in named for name in each.names))
    reached = inside(file, (model.name for model in models))
    joined: dict[str, Join] = {}
    repeated = (_repeated(file) & reached) - {model.name for model in models}
    for block in sorted(repeated - kept):
        found = _first_join(file, block, repeated | kept)
        if found is not None:
            joined[block] = found
    if joined:
        yield _hit(file, models, named, joined)


def _is_template(file: LintedFile) -> bool:
    """Whether another file is generated of it: transformers' `modular_x.py` beside `modeling_x.py`."""
    name = file.path.name
    return (
        name.startswith("modular_") and file.path.with_name(name.replace("modular", "modeling", 1)).exists()
    )


def _named(file: LintedFile, models: list[ClassText]) -> list[Named] | None:
    """All lists of the models of a file; None where something of them cannot be read."""
    found: dict[int, Named] = {}
    for model in models:
        lineage = file.project.lineage(model)
        read = {each.name for each in lineage}
        for each in (each for each in lineage if each.name != "PreTrainedModel"):
            unread = [base for base in each.bases if base.rpartition(".")[2] not in read]
            if any(base.endswith("Model") and not base.endswith(".PreTrainedModel") for base in unread):
                return None
            found |= {id(named.node): named for named in lists_of(each.node)}
            if any(NO_SPLIT in attributes for attributes in (each.attributes, each.methods)):
                return None
    return None if any(not named.whole for named in found.values()) else list(found.values())


def _repeated(file: LintedFile) -> set[str]:
    """The classes of the file of which a class of modules makes many: in a loop, or in a comprehension."""
    known = {node.name for node in file.source.class_list}
    found: set[str] = set()
    for function, around in file.source.functions:
        if around.owner is None or not file.in_module_class(Around(None, around.owner)):
            continue
        for call in (node for many in _loops(function) for node in nodes(many)):
            if isinstance(call, ast.Call) and isinstance(call.func, ast.Name):
                found |= classes_named(file, call.func, known)
                for value in file.assignments(Around(function, around.owner), call.func.id):
                    found |= classes_named(file, value, known)
    return found


def _loops(function: ast.AST) -> Iterator[ast.AST]:
    kinds = (ast.For, ast.While, ast.ListComp, ast.GeneratorExp)
    return (node for node in nodes(function) if isinstance(node, kinds))


def _first_join(file: LintedFile, block: str, others: set[str]) -> Join | None:
    """The first join of a block, or of a class that it is built of once."""
    weights, parts = Weights(file), 0
    found: Join | None = None
    own = inside(file, [block], others - {block})
    for name in sorted(own, key=lambda each: (each != block, each)):
        node = file.source.classes.get(name)
        if node is None or not file.in_module_class(Around(None, node)):
            continue
        text = file.source.class_text(node)
        parts += weights.count(text)
        found = found or next(joins(file, text), None)
    return found if parts > 1 else None


def _hit(file: LintedFile, models: list[ClassText], named: list[Named], joined: dict[str, Join]) -> Hit:
    owner = _owner(file, models, next(iter(joined)), {id(each.owner) for each in named})
    last = next((each for each in named if each.owner is owner), None)
    values = {"owner": owner.name, "blocks": ", ".join(joined)}
    reasons = [
        RULE.phrase("joins", line=str(each.node.lineno), owner=each.owner, code=short(each.node, 60))
        for each in joined.values()
    ]

    def repair() -> Repair | None:
        return _repair(file, owner, last, list(joined))

    return Hit(last.node if last is not None else owner, values, tuple(reasons), repair)


def _owner(file: LintedFile, models: list[ClassText], block: str, naming: set[int]) -> ast.ClassDef:
    """Where a list that names the block belongs: the model that has it, or what this derives from."""
    names = {model.name for model in models}
    builders = (model for model in models if block in inside(file, [model.name], names - {model.name}))
    model = next(builders, models[0])
    own = [each.node for each in file.project.lineage(model) if each in models]
    return next((node for node in own if id(node) in naming), own[-1] if own else model.node)


def _repair(file: LintedFile, owner: ast.ClassDef, last: Named | None, blocks: list[str]) -> Repair | None:
    names = [*(str(each.value) for each in last.names), *blocks] if last is not None else blocks
    text = f"{NO_SPLIT} = {json.dumps(names)}"
    if last is not None:
        return Repair(RULE.phrase("fix", blocks=", ".join(blocks)), swapped(file.script, last.node, text))
    first = next((each for each in owner.body if not isinstance(each, ast.Expr)), None)
    if first is None or first.lineno == owner.lineno or getattr(first, "decorator_list", None):
        return None
    return Repair(RULE.phrase("fix", blocks=", ".join(blocks)), with_line_before(file.script, first, text))


_CHINESE = """`_no_split_modules` 漏掉了一个会把内部各部分的结果合在一起的块。

## 发生了什么

一个供 `from_pretrained(device_map=...)` 加载的模型由重复的块组成，块把自己的输入与内部的输出相加，或者把
两个部分的输出合在一起，但模型没有任何列表要求这些块保持完整：要么没有列表，要么列表里写的是别的类。

## 为什么会失败

accelerate 依次填满每块 GPU，列表没写到的块可以从中间切开：前一半在 `cuda:0`，后一半在 `cuda:1`。钩子移动
进入各个部分的张量，不管块自己拿来与输出合在一起的张量，于是遇到两个设备。transformers 5 会不声不响
地这样放置；transformers 4 则拒绝没有列表的模型。

## 示例

```python
from torch import nn
from transformers import PreTrainedModel


class MyBlock(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.attention = nn.Linear(config.width, config.width)
        self.output = nn.Linear(config.width, config.width)

    def forward(self, hidden_states):
        residual = hidden_states
        hidden_states = self.output(self.attention(hidden_states))
        return hidden_states + residual


class MyModel(PreTrainedModel):
    base_model_prefix = "my"

    def __init__(self, config):
        super().__init__(config)
        self.blocks = nn.ModuleList([MyBlock(config) for _ in range(config.depth)])

    def forward(self, hidden_states):
        for block in self.blocks:
            hidden_states = block(hidden_states)
        return hidden_states
```

## 应当这样写

```python
from torch import nn
from transformers import PreTrainedModel


class MyBlock(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.attention = nn.Linear(config.width, config.width)
        self.output = nn.Linear(config.width, config.width)

    def forward(self, hidden_states):
        residual = hidden_states
        hidden_states = self.output(self.attention(hidden_states))
        return hidden_states + residual


class MyModel(PreTrainedModel):
    _no_split_modules = ["MyBlock"]
    base_model_prefix = "my"

    def __init__(self, config):
        super().__init__(config)
        self.blocks = nn.ModuleList([MyBlock(config) for _ in range(config.depth)])

    def forward(self, hidden_states):
        for block in self.blocks:
            hidden_states = block(hidden_states)
        return hidden_states
```

## 修复是否安全

安全：数值不变。代价是整个块必须放得进一块 GPU。

## 已知局限

只看本文件里在循环中构建的块，以及写在本文件里的运算。列表由计算得出的，或基类来自别的包（`PreTrainedModel`
本身除外）的，一律当作什么都写到了。transformers 用来生成其他文件的 `modular_x.py` 不看。

## 参考

- [大模型推理](https://huggingface.co/docs/accelerate/usage_guides/big_modeling)
"""

RULE = LintRule(
    code="SD219",
    name="block-not-kept-whole",
    title={
        "en": "_no_split_modules leaves out a block",
        "zh": "_no_split_modules 漏掉了一个块",
    },
    meaning={
        "en": "a device map may cut the block, and what it joins is then on two GPUs",
        "zh": "device_map 可能切开这个块，块里要合在一起的张量就会在两块 GPU 上",
    },
    cure={
        "en": "name the block in _no_split_modules",
        "zh": "把这个块写进 _no_split_modules",
    },
    sentences={
        "headline": {
            "en": "nothing keeps {blocks} of {owner} whole on one GPU",
            "zh": "{owner} 的 {blocks} 没有写进 _no_split_modules，可能被切到两块 GPU 上",
        },
        "joins": {
            "en": "line {line} of {owner} joins what two parts gave, or what came in and a part: {code}",
            "zh": "{owner} 第 {line} 行把两个部分的结果，或输入与一个部分的结果合在一起：{code}",
        },
        "fix": {"en": "keep {blocks} whole", "zh": "让 {blocks} 保持完整"},
    },
    page={"en": __doc__ or "", "zh": _CHINESE},
    check=_check,
    cause="block-split-across-devices",
    words=("PreTrainedModel",),
)
