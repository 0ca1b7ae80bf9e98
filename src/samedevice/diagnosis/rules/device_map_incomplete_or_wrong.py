"""The device map itself is wrong.

## What happens

It leaves out a module (often the model-level rotary module), uses names of another version, cuts by single
weights, or gives layers more room than there is. What it does not name stays on the host.

## Why it fails

A hand-written map fits one version of the module tree. `dispatch_model` and `from_pretrained` treat missing
names differently: one leaves them where they are, the other refuses.

## Example

```python
device_map = {"model.embed_tokens": 0, "model.layers": 0, "model.norm": 0, "lm_head": 0}
# since transformers 4.48 there is also model.rotary_emb
```

## Use instead

```python
device_map = {
    "model.embed_tokens": 0, "model.rotary_emb": 0, "model.layers": 0, "model.norm": 0, "lm_head": 0,
}
```

## Fix safety

Safe: the missing names are added on the device of their neighbours.

## Known limits

A rotary table on the host can also be a fault of the model code on one GPU.

## References

- `check_device_map` of accelerate
"""

from __future__ import annotations

from samedevice.diagnosis._failure import Failure, largest_first
from samedevice.diagnosis._rule import Hint, Rule, anywhere, frameless, line, said, sign
from samedevice.diagnosis.paste import Report
from samedevice.messages import Phrase
from samedevice.provenance.named_devices import by_table


def _detect(failure: Failure) -> Hint | None:
    if not failure.mismatch:
        return None
    if not failure.event.device_map:
        return _not_in_the_table(failure)
    if (hint := _left_out(failure)) is not None:
        return hint
    for operand in failure.weights:
        if operand.parameter and operand.device == "cpu" and failure.mapped(operand.parameter) is None:
            return Hint(
                6.5,
                Phrase("rules.device-map-incomplete-or-wrong.unmapped", operand=operand.parameter),
                operand.name,
            )
        step = operand.decision
        if step is not None and step.kind == "created" and operand.parameter in failure.event.device_map:
            return Hint(
                8,
                Phrase("rules.device-map-incomplete-or-wrong.not-followed", operand=operand.parameter or ""),
                operand.name,
            )
    return _of_the_model(failure)


def _left_out(failure: Failure) -> Hint | None:
    """A module without an entry, which was called with tensors of several devices."""
    if failure.left_out is None or not failure.two_gpus:
        return None
    for operand in failure.plain:
        born = failure.born(operand)
        if born is not None and born.source != "tensor" and failure.made_here(operand):
            return None  # no entry of the module would bring what it makes itself
    name, device = failure.left_out
    away = next((each for each in failure.plain if each.device != device), None)
    if away is None:
        return None
    key = "rules.device-map-incomplete-or-wrong.left-out"
    phrase = Phrase(key, module=name, operand=failure.written(away))
    return Hint(12.5, phrase, away.name)


def _of_the_model(failure: Failure) -> Hint | None:
    """A weight that the model reads itself, outside its layers, away from what it meets there."""
    if not failure.two_gpus or failure.cut is not None:
        return None
    running = {each.name for each in failure.event.running[:-1]}
    for operand in failure.weights:
        name = operand.parameter or ""
        owner = name.rpartition(".")[0]
        alone = name in failure.event.device_map or (owner and owner not in running)
        if alone and failure.mapped(name) == operand.device:
            key = "rules.device-map-incomplete-or-wrong.of-the-model"
            return Hint(5.7, Phrase(key, operand=name, device=operand.device), operand.name)
    return None


def _not_in_the_table(failure: Failure) -> Hint | None:
    """A weight that nobody placed, where a loop over a table placed the modules beside it.

    Of a module that is no part of the model no table would place it.
    """
    reached = all(each.registered for each in failure.event.running)
    by_loop = reached and any(by_table(place) for place in failure.event.placed)
    for operand in largest_first(failure.event.operands) if by_loop else ():
        newest = operand.decision
        if newest is not None and newest.kind in ("created", "loaded") and newest.name is not None:
            if failure.added_later(operand) or failure.taken(operand) is not None:
                continue  # when the table was followed there was no such weight, or somebody placed it
            name = operand.parameter or newest.name
            return Hint(
                8.5, Phrase("rules.device-map-incomplete-or-wrong.unmapped", operand=name), operand.name
            )
    for operand in failure.plain if by_loop and failure.weights and failure.two_gpus else ():
        text = failure.sent_by_table(operand)
        if text is not None:
            key = "rules.device-map-incomplete-or-wrong.two-tables"
            return Hint(7.2, Phrase(key, operand=failure.written(operand), text=text[:60]), operand.name)
    return None


def _named(report: Report) -> Phrase | None:
    """What the message says that the map leaves out; else that it says so."""
    if report.argument:
        return Phrase("rules.device-map-incomplete-or-wrong.unmapped", operand=report.argument)
    return Phrase("because.message", kind=report.kind)


_CHINESE = """`device_map` 本身有错。

## 发生了什么

它漏掉了某个模块（常见的是模型级的 rotary 模块），用了别的版本的名字，按单个权重切分，或者给某块 GPU 分
了放不下的层。没有写到的部分留在 CPU 上。

## 为什么会失败

手写的 `device_map` 只适合某个版本的模块结构。对于没写到的名字，`dispatch_model` 和 `from_pretrained` 的
处理不同：前者留在原处，后者拒绝。

## 示例

```python
device_map = {"model.embed_tokens": 0, "model.layers": 0, "model.norm": 0, "lm_head": 0}
# transformers 4.48 起还有 model.rotary_emb
```

## 应当这样写

```python
device_map = {
    "model.embed_tokens": 0, "model.rotary_emb": 0, "model.layers": 0, "model.norm": 0, "lm_head": 0,
}
```

## 修复是否安全

安全：缺的名字补到相邻模块所在的设备上。

## 已知局限

只有一块 GPU 时，旋转位置编码表留在 CPU 上也可能是模型代码的错误。

## 参考

- accelerate 的 `check_device_map`
"""

_MAP = r"device_map|split_model|layers_per_gpu|num_layers_per|dispatch_model"
"""A text that speaks of a placement of modules."""

RULE = Rule(
    code="SD122",
    name="device-map-incomplete-or-wrong",
    title={
        "en": "the device_map leaves something out or is wrong",
        "zh": "device_map 有遗漏或错误",
    },
    meaning={
        "en": "the map misses a module, uses names of another version, or cuts where nothing may be cut",
        "zh": "device_map 漏掉了模块、用了旧版本的名字，或在不能切的地方切开",
    },
    cure={
        "en": "compare the map with the module tree of the installed version (model.named_modules()) and "
        "complete "
        "it",
        "zh": "用 model.named_modules() 与当前版本的模块树对照，把 device_map 补全",
    },
    sentences={
        "not-followed": {
            "en": "the device_map names the parameter {operand}, and nothing placed it: name its module",
            "zh": "device_map 里写的是参数 {operand}，但没有任何代码放置它：请写它所在的模块",
        },
        "two-tables": {
            "en": "{operand} is sent by {text}; that table says another device for this module than the one "
            "that placed it",
            "zh": "{operand} 按 {text} 发送，而对这个模块，这张表给出的设备与放置它时用的不同",
        },
        "of-the-model": {
            "en": "the device_map puts {operand} on {device}; the model reads it itself, beside what a layer "
            "computed elsewhere, and no hook moves it there",
            "zh": "device_map 把 {operand} 放在 {device}；模型自己直接读取它，与别处某层算出的结果相遇，"
            "没有 hook 搬运",
        },
        "left-out": {
            "en": "the device_map has no entry for {module}, so no hook brings what it is called with to one "
            "GPU: {operand} comes as it was",
            "zh": "device_map 里没有 {module}，因此没有 hook 把它的参数移到同一块 GPU：{operand} 原样传入",
        },
        "unmapped": {"en": "the device_map does not reach {operand}", "zh": "device_map 没有覆盖 {operand}"},
    },
    page={"en": __doc__ or "", "zh": _CHINESE},
    common=0.4,
    signs=(
        sign(4.5, said("map-off-gpu")),
        sign(8, said("device-map-incomplete"), _named, certain=True),
        sign(
            5.2,
            line(r"rotary_emb|inv_freq"),
            said("same-device argument-device", devices="host"),
            anywhere(_MAP),
        ),
        sign(
            3.9,
            said("same-device argument-device", op="bmm", argument="mat2", devices="host"),
            anywhere(_MAP),
        ),
        sign(
            2.4,
            anywhere(
                r"device_map\s{0,2}=\s{0,2}\{|split_model|infer_auto_device_map|layers_per_gpu|num_layers_per"
            ),
        ),
        sign(0.5, said("same-device", devices="host"), frameless()),
        sign(0.3, said("same-device argument-device", devices="gpus"), frameless()),
        sign(2.6, said("no-exception"), anywhere(r"device_map")),
    ),
    detect=_detect,
)
