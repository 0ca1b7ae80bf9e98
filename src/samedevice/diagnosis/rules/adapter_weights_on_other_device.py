"""Adapter weights are on another device than the base layer.

## What happens

LoRA, IA3, VeRA or AdaLora weights were made or loaded on the host, or all on one GPU, while the base layers
are elsewhere.

## Why it fails

Adapters are attached after the model was placed. The library must put each adapter where its base layer is;
some releases forget a buffer, a shared projection or a counter, and a plain `load_state_dict` puts all of it
on one device.

## Example

```python
model = base.to("cuda:0")
model.add_adapter(config)               # adapter on the host
model(**inputs)
```

## Use instead

```python
model.add_adapter(config)
model.to("cuda:0")                       # moves adapter and base layers
# split model: for each layer, adapter.to(layer.weight.device)
```

## Fix safety

Safe before the optimizer is built; afterwards the optimizer must be built again.

## Known limits

A split base layer under an adapter gives the same message.

## References

- [Troubleshooting](https://huggingface.co/docs/peft/developer_guides/troubleshooting) of peft
"""

from __future__ import annotations

import re

from samedevice.diagnosis._failure import Failure, largest_first
from samedevice.diagnosis._rule import (
    Hint,
    Rule,
    anywhere,
    framed,
    frameless,
    inside,
    line,
    product_with,
    said,
    sign,
)
from samedevice.messages import Phrase


def _detect(failure: Failure) -> Hint | None:
    if not failure.mismatch:
        return None
    looks = (
        _merged,
        _kept_beside_a_layer,
        _beside_a_layer,
        _added_later,
        _of_another_tree,
        _made_after_the_model,
        _wrapped_around,
        _placed_apart,
        _shared_by_layers,
        _named_so,
    )
    return next((hint for look in looks if (hint := look(failure)) is not None), None)


def _named_so(failure: Failure) -> Hint | None:
    """A weight with a name that adapters use: no more than a candidate."""
    for weight in failure.weights:
        apart = any(each.device != weight.device for each in failure.event.operands)
        if apart and _NAMED.search(weight.parameter or ""):
            phrase = Phrase(
                "rules.adapter-weights-on-other-device.named", operand=weight.parameter or weight.name
            )
            return Hint(1.2, phrase, weight.name)
    return None


_NAMED = re.compile(r"(?:^|[._])(?:lora|ia3|vera|hada|lokr|boft|adalora)(?:_|\.|$)")


def _kept_beside_a_layer(failure: Failure) -> Hint | None:
    """A matrix that a module around a placed layer keeps as no parameter, multiplied with what the layer got;
    the product is added to what the layer gave.
    """
    here = failure.event.running[0] if failure.event.running else None
    if here is None or not here.below or failure.op not in _PRODUCTS:
        return None
    for matrix in failure.plain:
        kept = failure.from_attribute(matrix) and matrix.device not in here.below
        others = [failure.expression(each) or "" for each in failure.plain if each is not matrix]
        kept = kept and any(failure.flow.is_argument(each) for each in others)
        if kept and len(matrix.shape) == 2 and failure.adds_to_a_layer:
            key = "rules.adapter-weights-on-other-device.added-later"
            return Hint(8.2, Phrase(key, operand=failure.written(matrix), module=here.kind), matrix.name)
    return None


_PRODUCTS = ("mm", "addmm", "bmm", "matmul", "linear")


def _beside_a_layer(failure: Failure) -> Hint | None:
    """A weight that was made for a model which had been placed by then, and whose result is added to what
    the model computes.
    """
    for weight in largest_first(failure.event.operands):
        newest = weight.decision
        added = not failure.of_a_buffer(weight) and failure.added_later(weight)
        if newest is not None and added and failure.adds_to_a_layer:
            phrase = Phrase(
                "rules.adapter-weights-on-other-device.added-later",
                operand=weight.parameter or newest.name or "",
                module=failure.event.running[-1].kind if failure.event.running else "",
            )
            return Hint(8.2, phrase, weight.name)
    return None


def _added_later(failure: Failure) -> Hint | None:
    """A weight that was made for a module whose other parts had been placed elsewhere, and was never placed
    with them; or what was computed from it.
    """
    cut = next((each for each in failure.event.running if len(each.below) > 1), None)
    if cut is None or len(failure.event.running) < 2 or cut is failure.event.running[-1]:
        return None
    last = cut.name.rpartition(".")[2]
    for weight in failure.event.operands:
        newest = weight.decision
        if newest is None or newest.kind != "created" or newest.name is None:
            continue
        if failure.made_by_the_model(weight):
            continue
        name = weight.parameter or newest.name
        wraps = name.startswith(f"{cut.name}.") or f".{last}." in f".{newest.name}"
        others = [each for each in failure.event.operands if each is not weight and not each.role]
        if wraps and others and all(each.device != weight.device for each in others):
            phrase = Phrase(
                "rules.adapter-weights-on-other-device.added-later", operand=name, module=cut.name
            )
            return Hint(7.5, phrase, weight.name)
    return None


def _merged(failure: Failure) -> Hint | None:
    """A product of two matrices that is added to a weight while no `forward` runs."""
    weight = next((each for each in failure.weights if each.role == "parameter"), None)
    running = any(place.function == "forward" for place in failure.event.stack)
    if weight is None or running or failure.op.rstrip("_") not in ("add", "sub"):
        return None
    for delta in failure.plain:
        product = delta.device != weight.device and failure.flow.multiplies_matrices(
            failure.expression(delta)
        )
        if product and not failure.gradient(delta):
            key = "rules.adapter-weights-on-other-device.adapter"
            return Hint(9.8, Phrase(key, operand=failure.written(delta)), delta.name)
    return None


def _of_another_tree(failure: Failure) -> Hint | None:
    """A weight of a module that is no part of the model, and that a hook of a layer calls; its result is
    added to what that layer gave.
    """
    model = failure.event.running[-1] if len(failure.event.running) > 1 else None
    for weight in failure.weights if model is not None else ():
        others = [each for each in failure.plain if each.device != weight.device and failure.activation(each)]
        foreign = others and failure.of_another_tree(weight) and failure.flow.within_hook
        if model is not None and foreign and failure.adds_to_a_layer:
            key = "rules.adapter-weights-on-other-device.called-by-a-hook"
            name = weight.parameter or weight.name
            return Hint(8.2, Phrase(key, operand=name, module=model.kind), weight.name)
    return None


def _made_after_the_model(failure: Failure) -> Hint | None:
    """A weight, or what came from one, that was made on a GPU when a model spread over several had been
    placed, and meets what that model computed.
    """
    for weight in failure.event.operands:
        others = [each for each in failure.plain if each.device != weight.device]
        if any(map(failure.activation, others)) and failure.made_after_other_models(weight):
            name = weight.parameter or failure.written(weight)
            key = "rules.adapter-weights-on-other-device.made-after"
            return Hint(6.2, Phrase(key, operand=name, device=weight.device), weight.name)
    return None


def _wrapped_around(failure: Failure) -> Hint | None:
    """A weight that the outermost module owns itself and nobody placed, around a module that was placed."""
    model = failure.event.running[-1] if failure.event.running else None
    if model is None or failure.dispatched or len(model.below) < 2:
        return None
    for weight in failure.weights:
        newest = weight.decision
        own = weight.role == "parameter" and "." not in (weight.parameter or ".")
        others = [each for each in failure.event.operands if each is not weight]
        placed = others and all(failure.activation(each) and each.device != weight.device for each in others)
        if newest is not None and newest.kind == "created" and own and placed:
            key = "rules.adapter-weights-on-other-device.added-later"
            return Hint(6.0, Phrase(key, operand=weight.parameter or "", module=model.kind), weight.name)
    return None


def _placed_apart(failure: Failure) -> Hint | None:
    """A weight of an inner module's own, which another statement placed than the layers in that module."""
    here, *around = failure.event.running or (None,)
    if here is None or not around or failure.event.device_map:
        return None
    for weight in failure.weights:
        newest = weight.decision
        own = here.own == (weight.device,) and weight.parameter == f"{here.name}.{_last(weight.parameter)}"
        if newest is None or newest.kind != "placed" or not own:
            continue
        for layer in failure.plain:
            placed = layer.lineage[0] if failure.activation(layer) else None
            if placed is not None and placed.at != newest.at and layer.device in here.below:
                key = "rules.adapter-weights-on-other-device.added-later"
                phrase = Phrase(key, operand=weight.parameter or weight.name, module=here.name)
                return Hint(6.5, phrase, weight.name)
    return None


def _last(name: str | None) -> str:
    return (name or "").rpartition(".")[2]


def _shared_by_layers(failure: Failure) -> Hint | None:
    """A weight that stands at the same place in several layers, and is where another one of them is."""
    here = failure.event.running[0] if failure.event.running else None
    for weight in failure.weights if here is not None else ():
        own = weight.parameter or ""
        layers = any(_numbered(own) == _numbered(other) for other in weight.tied)
        base = here is not None and own.startswith(f"{here.name}.") and weight.device not in here.below
        if layers and base and here is not None and here.below:
            phrase = Phrase("rules.adapter-weights-on-other-device.adapter", operand=own)
            return Hint(7.5, phrase, weight.name)
    return None


def _numbered(name: str) -> tuple[str, ...]:
    """A qualified name without the numbers of its layers."""
    return tuple(part for part in name.split(".") if not part.isdecimal())


_CHINESE = """适配器的权重和它所依附的基座层不在同一设备上。

## 发生了什么

LoRA、IA3、VeRA、AdaLora 的权重创建或加载在 CPU 上，或者全部落在一块 GPU 上，而基座层在别处。

## 为什么会失败

适配器是在模型放好之后才挂上去的，库必须把每个适配器放到对应基座层的设备上。有些版本会漏掉某个 buffer、
共享的投影矩阵或计数器；直接调用 `load_state_dict` 则会把它们全部放到同一个设备。

## 示例

```python
model = base.to("cuda:0")
model.add_adapter(config)               # 适配器在 CPU 上
model(**inputs)
```

## 应当这样写

```python
model.add_adapter(config)
model.to("cuda:0")                       # 适配器和基座层一起移动
# 模型被切分时，对每一层：adapter.to(layer.weight.device)
```

## 修复是否安全

在创建优化器之前这样做是安全的；之后再改，优化器必须重新创建。

## 已知局限

适配器所在的基座层本身被切开时，报错信息完全一样。

## 参考

- peft 的 [Troubleshooting](https://huggingface.co/docs/peft/developer_guides/troubleshooting)
"""

RULE = Rule(
    code="SD127",
    name="adapter-weights-on-other-device",
    title={
        "en": "adapter weights are away from their base layer",
        "zh": "适配器权重与基座层不在同一设备",
    },
    meaning={
        "en": "LoRA or similar weights were created or loaded on another device than the layer they "
        "belong to",
        "zh": "LoRA 等适配器权重创建或加载到了与基座层不同的设备上",
    },
    cure={
        "en": "move the adapter to the device of each base layer after attaching it, or attach before the "
        "model "
        "is moved",
        "zh": "挂上适配器后把它移到每个基座层所在的设备，或先挂适配器再移动模型",
    },
    sentences={
        "adapter": {
            "en": "{operand} is one memory for several layers, and is where another one of them is",
            "zh": "{operand} 由多个层共用，而它位于其中另一层的设备上",
        },
        "named": {
            "en": "{operand} is named like an adapter's weight",
            "zh": "{operand} 的名字像适配器的权重",
        },
        "made-after": {
            "en": "{operand} was made on {device} after the model had been placed, and meets what a part on "
            "another device computed",
            "zh": "{operand} 是在模型放置好之后在 {device} 上创建的，却与另一设备上的部分算出的结果相遇",
        },
        "added-later": {
            "en": "{operand} was made after the other parts of {module} had been placed, and never moved",
            "zh": "{operand} 是在 {module} 的其他部分放好之后才创建的，从未移动",
        },
        "called-by-a-hook": {
            "en": "{operand} is no part of {module}; a hook adds what it computes to what a layer gave",
            "zh": "{operand} 不属于 {module}；由 hook 把它算出的结果加到某一层的输出上",
        },
    },
    page={"en": __doc__ or "", "zh": _CHINESE},
    common=0.35,
    signs=(
        sign(
            5.5, line(r"\blora_[A-Z]\w*|\blora_\w+|\bia3_l\w*|\bvera_\w+|ranknum|lora_magnitude|\bhada_\w+")
        ),
        sign(5, inside(r"lora|adapter")),
        sign(6, said("same-device argument-device"), anywhere(r"parameter named \W?[\w.]{0,200}lora_")),
        sign(
            3.2,
            said("same-device argument-device", op="mm", argument="mat2", devices="host"),
            product_with("weight"),
            framed(),
        ),
        sign(2.6, said("same-device argument-device", op="_mm$|addmm", argument="mat2", devices="gpus")),
        sign(1.5, said("same-device argument-device"), anywhere(r"\b(?:lora|adapter)\b")),
        sign(0.45, said("same-device", devices="host"), frameless()),
    ),
    detect=_detect,
)
