"""A block that must stay whole was cut by the placement.

## What happens

Residual connections, cross attention, summed embeddings or directly owned parameters join tensors of one block, and
the map put parts of the block on different GPUs.

## Why it fails

Accelerate moves what enters a module to that module's device. Inside a cut block, the branches end on different GPUs
and a plain `+` joins them; nothing moves there. The class's list of blocks that must stay whole (`_no_split_modules`)
is missing, empty or names another class.

## Example

```python
device_map = {"layers.0.attn": 0, "layers.0.mlp": 1, ...}    # the residual of layer 0 is cut
```

## Use instead

```python
device_map = {"layers.0": 0, "layers.1": 1, ...}              # whole blocks only
```

## Fix safety

Safe: the numbers do not change, only where they are computed. A whole block must fit on one GPU.

## Known limits

A pair of neighbouring GPUs in a message without frames is often this, and no proof of it.

## References

- `no_split_module_classes` in [Big model inference](https://huggingface.co/docs/accelerate/concept_guides/big_model_inference) of accelerate
"""

# ruff: noqa: E501 # sentences are whole lines, and Chinese has its own punctuation

from __future__ import annotations

from dataclasses import replace
from math import prod

from samedevice.diagnosis._failure import Failure
from samedevice.diagnosis._rule import (
    Hint,
    Rule,
    argument,
    before_maps,
    beside_the_first,
    frameless,
    inside,
    line,
    remote,
    said,
    sign,
    unless,
)
from samedevice.diagnosis.paste import Report
from samedevice.events import Operand, Running, on_accelerator
from samedevice.messages import Phrase


def _neighbours(report: Report) -> Phrase | None:
    """Two neighbouring GPUs, neither of them the first: a cut in the middle of a model."""
    numbers = [device.partition(":")[2] for device in report.devices]
    if (
        len(numbers) == 2
        and all(number.isdecimal() and int(number) > 0 for number in numbers)
        and abs(int(numbers[0]) - int(numbers[1])) == 1
    ):
        return Phrase("rules.block-split-across-devices.neighbours", devices=", ".join(report.devices))
    return None


def _detect(failure: Failure) -> Hint | None:
    if not failure.mismatch or not failure.two_gpus:
        return None
    if _of_script_and_map(failure) or any(map(failure.handed_on, failure.plain)):
        return None
    if any(map(failure.sent_out_of_the_model, failure.plain)):
        return None
    if any(map(failure.given_back_whole, failure.plain)):
        return None
    if any(map(failure.made_after_other_models, failure.weights)) or _of_whole_models(failure):
        return None  # what one model is or computed met what another one is or computed
    hint = _parts_meet(failure)
    if failure.dispatched or not _all_placed(failure):
        return hint
    if not failure.in_model and failure.takes_gradients:
        return hint  # what a function keeps for its gradient is no part of a model
    runs = failure.in_model or any(place.function == "forward" for place in failure.event.stack)
    runs = runs and not any(map(failure.of_another_model, failure.plain))
    if hint is None:
        odd = _smaller(failure) or _brought(failure) or failure.odd(*failure.event.operands)
        return None if odd is None else Hint(5.0 if runs else 4.6, _placed_apart(failure), odd.name)
    # the script's own statements put both where they are
    return replace(hint, weight=max(hint.weight, 5.2 if runs else 4.6))


def _of_whole_models(failure: Failure) -> bool:
    """Whether results of two models meet, or the same weight of two copies of one."""
    computed = [each for each in failure.plain if failure.activation(each)]
    results = any(failure.of_one_model(computed[0], each) is False for each in computed[1:])
    return results or failure.copies_apart


def _parts_meet(failure: Failure) -> Hint | None:
    if all(each.shape == () for each in failure.event.operands):
        return None  # numbers: losses
    cut = failure.cut
    layers = [each for each in failure.plain if failure.activation(each) and each.shape]
    if failure.dispatched and cut is None and failure.event.running:
        return _in_the_model(failure, layers)
    if len({each.device for each in layers}) > 1 and not failure.weights:
        same = any(failure.related(one, other) for one in layers for other in layers if one is not other)
        odd = _away(failure, layers) or _fresh(failure, layers)
        if odd is None or (not same and cut is None):
            return None
        reason = _two_parts(failure, layers) if cut is None else _cut(failure, cut)
        sure = (same or _by_entries(layers)) and not failure.sent_by_this_line(odd)
        return Hint(6 if sure else 4.2, reason, odd.name)
    if cut is not None and not failure.weights:
        for given in failure.plain:
            if given.from_argument is not None and given not in layers and failure.taken_by_a_layer(given):
                return Hint(6, _cut(failure, cut), given.name)
    if not failure.dispatched:
        return _split_by_hand(failure, cut, layers)
    if cut is not None and (own := _own_weights_apart(failure, cut)) is not None:
        return Hint(6, _cut(failure, cut), own.name)
    if cut is None or failure.op not in _JOINS:
        return None
    odd = next(iter(failure.weights), None) or failure.odd(*failure.event.operands)
    direct = bool(failure.weights and layers) and cut is failure.event.running[0]
    return Hint(5 if direct else 3.5, _cut(failure, cut), odd.name if odd else None)


def _own_weights_apart(failure: Failure, cut: Running) -> Operand | None:
    """One of the weights of a layer, or of what it makes of them, where the map puts these on several GPUs."""
    own = [each for each in failure.event.operands if _is_weight_of(each, cut)]
    return failure.odd(*own) if len({each.device for each in own}) > 1 else None


def _is_weight_of(operand: Operand, module: Running) -> bool:
    newest = operand.decision
    placed = newest.name if newest is not None and newest.kind == "placed" and not newest.inherited else None
    return (operand.parameter or placed or "").startswith(f"{module.name}.")


def _in_the_model(failure: Failure, layers: list[Operand]) -> Hint | None:
    """What a model itself adds up, as embeddings of the same tokens, or a weight of its own that meets what its
    parts computed; whatever else meets in its code are two streams.
    """
    owned = (each for each in failure.event.operands if failure.directly_owned(each))
    if (own := next(owned, None)) is not None and failure.op in _JOINS:
        met = next((each for each in layers if each.device != own.device), None)
        if met is not None:
            reason = Phrase(
                "because.away-from-weight", operand=failure.written(met), weight=failure.written(own)
            )
            return Hint(7.5, reason, own.name)
    summed = failure.op.startswith("add") and len({each.device for each in layers}) > 1
    if not summed or failure.weights:
        return None
    apart = any(failure.related(layers[0], each) is False for each in layers[1:])
    if apart and failure.flow.puts_into_places():
        return None  # what comes from another input, for some places of this one
    odd = _fresh(failure, layers)
    return None if odd is None else Hint(6.4, _two_parts(failure, layers), odd.name)


def _fresh(failure: Failure, layers: list[Operand]) -> Operand | None:
    """The only one that was not handed in as it is, or else the odd one."""
    fresh = [each for each in layers if each.argument is None or each.argument != each.local]
    return fresh[-1] if len(fresh) == 1 else failure.odd(*layers)


def _by_entries(layers: list[Operand]) -> bool:
    """Whether each is where an entry of the device map put the weights that computed it."""
    return all(
        step is not None and step.kind == "placed" and step.entry is not None
        for step in (each.decision for each in layers)
    )


def _of_script_and_map(failure: Failure) -> bool:
    """Whether the script made one of the operands on a GPU that it names, and the map put the others where
    they are: then the script's choice is the odd one, and nothing was cut.
    """
    chosen = [each for each in failure.event.operands if _chosen(failure, each)]
    others = [each.decision for each in failure.event.operands if each not in chosen]
    by_map = [
        step
        for step in others
        if step is not None and step.kind == "placed" and not failure.by_user(step.user_at or step.at)
    ]
    return bool(chosen) and bool(others) and by_map == others


def _chosen(failure: Failure, operand: Operand) -> bool:
    newest = operand.decision
    return newest is not None and newest.kind == "created" and failure.decided_by_user(operand)


def _all_placed(failure: Failure) -> bool:
    """Whether each operand is where weights, or a move of what they computed, were sent on purpose."""
    steps = [each.decision for each in failure.event.operands]
    return all(
        step is not None
        and step.kind in ("placed", "moved", "created")
        and step.source not in (None, "default")
        and (step.kind == "placed" or failure.activation(each) or bool(each.role))
        for each, step in zip(failure.event.operands, steps, strict=True)
    )


def _placed_apart(failure: Failure) -> Phrase:
    one, *others = failure.event.operands
    other = next(each for each in others if each.device != one.device)
    return Phrase(
        "rules.block-split-across-devices.placed-apart",
        operand=failure.written(one),
        device=one.device,
        other=failure.written(other),
        elsewhere=other.device,
    )


def _smaller(failure: Failure) -> Operand | None:
    """Of two operands the one that is far smaller: it is the one to send."""
    if len(failure.event.operands) != 2:
        return None
    small, large = sorted(failure.event.operands, key=lambda each: prod(each.shape))
    return small if prod(small.shape) * _FAR_SMALLER <= prod(large.shape) else None


_FAR_SMALLER = 8


def _brought(failure: Failure) -> Operand | None:
    """The only one that the call brought to what an object keeps, or to a weight."""
    kept = [each for each in failure.event.operands if each.role or failure.from_attribute(each)]
    brought = [each for each in failure.event.operands if each not in kept]
    return brought[0] if kept and len(brought) == 1 else None


def _away(failure: Failure, layers: list[Operand]) -> Operand | None:
    """The only one that is not where all weights of the running module are."""
    homes = failure.event.running[0].below if failure.event.running else ()
    away = [each for each in layers if (each.device,) != homes]
    return away[0] if len(homes) == 1 and len(away) == 1 else None


_JOINS = (
    "add",
    "add_",
    "mul",
    "sub",
    "div",
    "cat",
    "bmm",
    "mm",
    "addmm",
    "where",
    "masked_fill",
    "masked_fill_",
)


def _cut(failure: Failure, module: Running) -> Phrase:
    """The module that runs has its name in the finding already."""
    here = module is failure.event.running[0]
    return Phrase(
        "rules.block-split-across-devices.cut",
        module=module.kind if here else f"{module.name} ({module.kind})",
        devices=", ".join(module.below),
    )


def _two_parts(failure: Failure, layers: list[Operand]) -> Phrase:
    one, other = layers[0], next(each for each in layers if each.device != layers[0].device)
    key = "rules.block-split-across-devices.two-parts"
    return Phrase(key, operand=failure.written(one), other=failure.written(other))


def _split_by_hand(failure: Failure, cut: Running | None, layers: list[Operand]) -> Hint | None:
    """The activation of one part enters another part, and nothing moves it."""
    weights = [each for each in failure.weights if on_accelerator(each.device)]
    late = next((each for each in layers if all(each.device != own.device for own in weights)), None)
    if late is None or not weights:
        return None
    if cut is not None:
        return Hint(6, _cut(failure, cut), late.name)
    met = weights[-1].parameter or weights[-1].name
    away = Phrase("because.away-from-weight", operand=failure.written(late), weight=met)
    return Hint(4, away, late.name)


_CHINESE = """必须保持完整的模块被放置方案切开了。

## 发生了什么

残差连接、交叉注意力、几个嵌入相加、模块直接持有的参数，都会把同一个模块里的张量合在一起；而
`device_map` 把这个模块的各部分放到了不同的 GPU 上。

## 为什么会失败

accelerate 会把进入模块的张量移到该模块的设备。模块被切开后，两条支路的结果落在不同的 GPU 上，由一个普通
的 `+` 合并，那里没有任何东西负责移动。原因通常是类里“必须保持完整的模块”清单（`_no_split_modules`）缺失、
为空，或者写了别的类名。

## 示例

```python
device_map = {"layers.0.attn": 0, "layers.0.mlp": 1, ...}    # 第 0 层的残差被切断
```

## 应当这样写

```python
device_map = {"layers.0": 0, "layers.1": 1, ...}              # 只按完整的层来分
```

## 修复是否安全

安全：改变的只是在哪里计算，数值不变。一块 GPU 要放得下一个完整的模块。

## 已知局限

只有报错信息、没有调用栈时，出现一对相邻的 GPU 往往是这个原因，但不能证明。

## 参考

- accelerate 的
  [Big model inference](https://huggingface.co/docs/accelerate/concept_guides/big_model_inference)，见
  `no_split_module_classes`
"""

_APART = (
    said("same-device argument-device", devices="gpus"),
    unless(before_maps()),
    unless(beside_the_first()),
)
"""Two GPUs met, and a device map may have put the parts of a model there."""

RULE = Rule(
    code="SD120",
    name="block-split-across-devices",
    title={
        "en": "a block was cut across devices",
        "zh": "一个完整的模块被切到了多个设备上",
    },
    meaning={
        "en": "the placement cut a block (residual, cross attention, summed embeddings) whose parts are "
        "joined without a move",
        "zh": "放置方案把必须整体放置的模块（残差、交叉注意力、嵌入相加）切开了，而汇合处没有搬运",
    },
    cure={
        "en": "name the block's class in no_split_module_classes, or place the block as one key of "
        "device_map",
        "zh": "在 no_split_module_classes 中写上该模块的类名，或在 device_map 中把该模块作为一个键整体放置",
    },
    sentences={
        "neighbours": {
            "en": "neighbouring GPUs in the middle of a model: {devices}",
            "zh": "模型中段相邻的两块 GPU：{devices}",
        },
        "two-parts": {
            "en": "{operand} and {other} were computed by parts of the model on different GPUs",
            "zh": "{operand} 和 {other} 由位于不同 GPU 的两部分模型算出",
        },
        "placed-apart": {
            "en": "{operand} was put on {device} and {other} on {elsewhere} on purpose, and nothing moves one to the other",
            "zh": "{operand} 被有意放在 {device} 上，{other} 被放在 {elsewhere} 上，而没有代码把其中一个搬到另一边",
        },
        "cut": {"en": "{module} is on {devices}", "zh": "{module} 分布在 {devices} 上"},
    },
    page={"en": __doc__ or "", "zh": _CHINESE},
    common=0.7,
    signs=(
        sign(6, said("device-map-class-unsupported")),
        sign(
            4.2,
            line(
                r"\bresidual\b|\bhidden_states \+|\bhidden_states, (?:residual|attn_output|ffn|shortcut)|\bshortcut\b|\battn_output\b|\bfeed_forward\b|\bresidual_\w+|drop_path"
            ),
        ),
        sign(
            3.8,
            inside(r"model_parallelism|sharded|_offload|layerwise|model_parallel(?!_beam)"),
        ),
        sign(
            2.2,
            *_APART,
            unless(argument("index|src|source")),
            remote(),
        ),
        sign(
            1.2,
            *_APART,
            unless(argument("index|src|source")),
            line(r"hidden_states"),
        ),
        sign(1.6, *_APART, _neighbours),
        sign(1.4, *_APART, frameless()),
        sign(1.4, said("same-device argument-device", op="mm|layer_norm|convolution", devices="gpus")),
        sign(1.0, *_APART),
    ),
    detect=_detect,
)
