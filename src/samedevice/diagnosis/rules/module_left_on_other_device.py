"""A module, or the whole model, was never moved to where its inputs are.

## What happens

A convolution, linear layer or embedding gets a GPU tensor while its weight is on the host, or the reverse.
Often it is a vision or audio encoder that remote code keeps in a list or loads late, or a model that stayed
on the host while only the inputs went to the GPU.

## Why it fails

`model.to(device)` moves what is registered as a submodule at that moment. Encoders kept in plain lists or
made later stay behind.

## Example

```python
model = AutoModel.from_pretrained(name)           # on the host
model(pixel_values.to("cuda"))
```

## Use instead

```python
model = AutoModel.from_pretrained(name).to("cuda")
model(pixel_values.to(model.device))
```

## Fix safety

Safe if it happens before the optimizer is built; memory for the weights is needed on the target.

## Known limits

A weight on the host may also be there on purpose (offload) and miss its hook, or a map may have left it out.

## References

- [torch.nn.Module.to](https://docs.pytorch.org/docs/stable/generated/torch.nn.Module.html#torch.nn.Module.to)
"""

from __future__ import annotations

from samedevice.diagnosis._failure import Failure, largest_first
from samedevice.diagnosis._kept import kept_beside_parameters
from samedevice.diagnosis._rule import (
    Hint,
    Rule,
    anywhere,
    called,
    frameless,
    in_a_layer,
    input_beside_weight,
    line,
    named,
    product_with,
    said,
    shown,
    sign,
    unless,
)
from samedevice.events import Operand, on_accelerator
from samedevice.messages import Phrase


def _detect(failure: Failure) -> Hint | None:
    stayed = next((each for each in failure.off_its_gpu if each.role and each.device == "cpu"), None)
    if stayed is not None:
        return Hint(6, Phrase("because.never-moved", operand=stayed.parameter or stayed.name), stayed.name)
    if not failure.mismatch:
        return None
    here = next((each for each in reversed(failure.event.running) if not each.registered), None)
    if here is not None and set(here.below) == {"cpu"} and len(failure.event.running) > 1:
        parent = next(each for each in failure.event.running if each.registered)
        stale = next((each for each in largest_first(failure.weights) if each.device == "cpu"), None)
        reason = Phrase(
            "rules.module-left-on-other-device.not-registered", module=here.kind, parent=parent.kind
        )
        return Hint(7, reason, stale.name if stale is not None else None) if stale is not None else None
    if (copy := _copy_left(failure)) is not None:
        return copy
    looks = (
        _joined_later,
        _apart_from_the_other_model,
        _not_where_its_code_sends,
        _beside_its_own,
        _never_placed,
        _whole_model,
        _behind_a_dispatched_part,
        _of_an_object,
        _copy_elsewhere,
        _before_it_never_placed,
    )
    if (unplaced := next((hint for look in looks if (hint := look(failure)) is not None), None)) is not None:
        return unplaced
    left = [each for each in largest_first(failure.weights) if each.device == "cpu" and not _was_sent(each)]
    if not left or not any(on_accelerator(each.device) for each in failure.plain) or failure.event.device_map:
        return None
    if failure.looks_up:
        ids = failure.plain[0]
        weight = 5.5 if failure.placed_by_user(ids) else 3.0
        return Hint(
            weight, Phrase("because.never-moved", operand=left[0].parameter or left[0].name), left[0].name
        )
    return Hint(
        3.9 if left[0].moved is None else 3,
        Phrase("because.never-moved", operand=left[0].parameter or left[0].name),
        left[0].name,
    )


def _was_sent(weight: Operand) -> bool:
    """Whether a hook is known to have had it on a GPU."""
    return any(step.kind == "hook" and on_accelerator(step.device) for step in weight.lineage)


def _copy_left(failure: Failure) -> Hint | None:
    """A copy of a model, whose weights a statement goes over beside those of the model, was never moved."""
    kept = kept_beside_parameters(failure)
    newest = None if kept is None else kept.decision
    if kept is None or newest is None or newest.kind != "created" or kept.device != "cpu":
        return None
    if kept.role != "parameter" and not failure.of_module_there(kept):
        return None
    return Hint(9.6, Phrase("because.never-moved", operand=failure.written(kept)), kept.name)


def _whole_model(failure: Failure) -> Hint | None:
    """Nothing placed the model that runs, and what it is given is on a GPU."""
    model = failure.event.running[-1] if failure.event.running else None
    left = [each for each in largest_first(failure.event.operands) if _stayed(each)]
    brought = any(on_accelerator(each.device) and each.lineage for each in failure.plain)
    inside = any(failure.made_inside(each) for each in failure.plain if on_accelerator(each.device))
    if model is None or {*model.own, *model.below} != {"cpu"} or not left or not brought or inside:
        return None
    named = left[0].decision.name if left[0].decision is not None else None
    return Hint(
        7.2, Phrase("because.never-moved", operand=left[0].parameter or named or left[0].name), left[0].name
    )


def _stayed(operand: Operand) -> bool:
    """Whether it is a weight, or was computed from one, that nothing moved since it was made."""
    newest = operand.decision
    if newest is None or operand.device != "cpu" or not (operand.role or newest.name):
        return False
    if newest.kind in ("created", "loaded") or (newest.kind == "outside" and operand.role is not None):
        return True  # `outside`: memory of a file that a loader mapped
    # Made from another module's weight, which was taken to the host for that.
    built = newest.at is not None and newest.at.function == "__init__"
    return newest.kind == "placed" and built and any(each.kind == "placed" for each in operand.lineage[1:])


def _joined_later(failure: Failure) -> Hint | None:
    """A weight that a script put into a model which had been placed by then, and that it sent to another GPU
    than what the part gets.
    """
    here = failure.event.running[0] if len(failure.event.running) > 1 else None
    whole = here is not None and len(here.below) == 1
    for weight in largest_first(failure.weights) if whole else ():
        away = [
            each
            for each in failure.plain
            if each.device != weight.device and (failure.activation(each) or failure.follows_a_layer(each))
        ]
        if away and failure.joined_later(weight):
            key = "rules.module-left-on-other-device.joined-later"
            name = weight.parameter or weight.name
            values = {"operand": name, "elsewhere": weight.device, "device": away[0].device}
            computed = any(map(failure.activation, away))
            sure = 7.2 if computed and not failure.adds_to_a_layer else 4.2  # it may be an adapter as well
            return Hint(sure, Phrase(key, input=failure.written(away[0]), **values), weight.name)
    return None


def _apart_from_the_other_model(failure: Failure) -> Hint | None:
    """A weight of a model that is whole on the current GPU, since the program said no number where it placed
    it, and what it is given was sent to where another model is.
    """
    model = failure.event.running[-1] if failure.event.running else None
    if model is None or failure.dispatched or len(model.below) != 1:
        return None
    for weight in largest_first(failure.weights):
        sent = [each for each in failure.plain if each.device != weight.device]
        placed = weight.decision
        if placed is not None and placed.kind == "placed" and placed.without_index and sent:
            if all(map(failure.follows_another_model, sent)):
                key = "rules.module-left-on-other-device.apart-from-the-other"
                name = weight.parameter or weight.name
                values = {"operand": name, "elsewhere": weight.device, "device": sent[0].device}
                return Hint(8.2, Phrase(key, input=failure.written(sent[0]), **values), weight.name)
    return None


def _not_where_its_code_sends(failure: Failure) -> Hint | None:
    """A weight of a model that is whole on another device than where its own code sends what it computes."""
    for weight in largest_first(failure.weights):
        sent = [each for each in failure.plain if each.device != weight.device]
        if sent and any(map(failure.sent_out_of_the_model, sent)):
            key = "rules.module-left-on-other-device.not-where-its-code-sends"
            values = {"operand": weight.parameter or weight.name, "elsewhere": weight.device}
            return Hint(6, Phrase(key, device=sent[0].device, **values), weight.name)
    return None


def _beside_its_own(failure: Failure) -> Hint | None:
    """A weight that nobody placed, beside another one of the same layer that was placed."""
    for operand in largest_first(failure.weights):
        newest, owner = operand.decision, (operand.parameter or "").rpartition(".")[0]
        beside = (
            each.decision
            for each in failure.weights
            if each.device != operand.device and (each.parameter or "").rpartition(".")[0] == owner
        )
        made = operand.role == "parameter" and newest is not None and newest.kind == "created"
        if made and any(each is not None and each.kind == "placed" for each in beside):
            name = Phrase("because.never-moved", operand=operand.parameter or operand.name)
            return Hint(7, name, operand.name)
    return None


def _of_an_object(failure: Failure) -> Hint | None:
    """A weight or table of a module that an object of a package keeps: where no module runs, nothing placed
    it.
    """
    if failure.in_model or failure.by_user(failure.event.at):
        return None
    for operand in largest_first(failure.event.operands):
        made = operand.decision
        kept = made is not None and made.kind in ("created", "loaded") and made.name is not None
        others = [each for each in failure.event.operands if each.device != operand.device]
        there = bool(others) and all(on_accelerator(each.device) for each in others)
        if kept and operand.device == "cpu" and there and not failure.handed_down(operand):
            return Hint(7, Phrase("because.never-moved", operand=failure.written(operand)), operand.name)
    return None


def _before_it_never_placed(failure: Failure) -> Hint | None:
    """What weights that nobody placed computed on the host, where a layer on a GPU gets it."""
    if not any(on_accelerator(each.device) for each in failure.weights):
        return None
    for given in failure.plain:
        newest = given.decision
        if newest is None or newest.at is None or given.device != "cpu":
            continue
        made = (newest.kind, newest.source, newest.inherited) == ("created", "default", True)
        learns = (failure.expression(given) or "") in failure.event.differentiable
        by_weights = newest.name is not None or (newest.at.function == "__init__" and learns)
        if made and by_weights:
            return Hint(7.4, Phrase("because.never-moved", operand=failure.written(given)), given.name)
    return None


def _copy_elsewhere(failure: Failure) -> Hint | None:
    """A weight of one copy of a model, where it meets the same weight of another copy, which is elsewhere."""
    if not failure.copies_apart or failure.takes_gradients:
        return None
    brought = [each for each in failure.event.operands if not failure.from_attribute(each)]
    odd = brought[0] if len(brought) == 1 else failure.event.operands[-1]
    key = "rules.module-left-on-other-device.copy-elsewhere"
    values = {"operand": failure.written(odd), "device": odd.device}
    return Hint(6, Phrase(key, **values), odd.name)


def _behind_a_dispatched_part(failure: Failure) -> Hint | None:
    """A layer that a statement placed, and no map, away from where the hook of a dispatched model, which has
    returned, sent what that one gave.
    """
    here = failure.event.running[0] if failure.event.running else None
    if here is None or here.hook is not None or not here.own:
        return None
    runs = {each.name for each in failure.event.running}
    for weight in largest_first(failure.weights):
        placed = weight.decision
        if placed is None or placed.kind != "placed" or placed.entry is not None:
            continue
        for given in failure.plain:
            sent = given.decision
            back = sent is not None and sent.kind == "hook" and sent.name not in runs
            if back and given.device != weight.device and failure.activation(given):
                key = "rules.module-left-on-other-device.behind-a-hook"
                name = weight.parameter or weight.name
                values = {"operand": name, "elsewhere": weight.device, "device": given.device}
                return Hint(7.2, Phrase(key, input=failure.written(given), **values), weight.name)
    return None


def _never_placed(failure: Failure) -> Hint | None:
    """A weight that nobody placed, or what was computed from it, beside what comes from placed ones."""
    here = failure.event.running[0] if failure.event.running else None
    if here is None or len(here.below) != 1 or len(failure.event.running) < 2:
        return None
    home = {*failure.event.running[-1].below} - {"cpu"}
    for operand in largest_first(failure.event.operands):
        step = operand.decision
        weight = step is not None and step.kind == "created" and step.name is not None
        others = [each for each in failure.event.operands if each.device != operand.device]
        placed = any(
            each.device in home or (each.decision is not None and each.decision.kind in ("placed", "hook"))
            for each in others
        )
        if failure.added_later(operand) and failure.adds_to_a_layer:
            continue  # an adapter, which never was part of what was placed
        if weight and placed and (operand.device,) == here.below and step is not None:
            return Hint(7, Phrase("because.never-moved", operand=step.name or operand.name), operand.name)
    return None


_CHINESE = """某个模块或整个模型从没移动到输入所在的设备。

## 发生了什么

卷积、线性层或嵌入收到 GPU 张量，权重却在 CPU 上，或者反过来。常见的是：remote code 把视觉或音频编码器放
在列表里，或很晚才加载；或者模型一直在 CPU，只有输入去了 GPU。

## 为什么会失败

`model.to(device)` 移动的是当时已注册为子模块的部分。放在普通列表里的、后来才创建的编码器不会跟着走。

## 示例

```python
model = AutoModel.from_pretrained(name)           # 在 CPU 上
model(pixel_values.to("cuda"))
```

## 应当这样写

```python
model = AutoModel.from_pretrained(name).to("cuda")
model(pixel_values.to(model.device))
```

## 修复是否安全

在创建优化器之前这样做是安全的；目标设备上要有放权重的空间。

## 已知局限

权重在 CPU 上也可能是有意的（offload），只是缺了 hook；或者是 `device_map` 漏掉了它。

## 参考

-
  [torch.nn.Module.to](https://docs.pytorch.org/docs/stable/generated/torch.nn.Module.html#torch.nn.Module.to)
"""

RULE = Rule(
    code="SD114",
    name="module-left-on-other-device",
    title={
        "en": "a module was not moved with its inputs",
        "zh": "模块没有移动到输入所在的设备",
    },
    meaning={
        "en": "the weights of a module, or of the whole model, stayed behind on another device than their "
        "inputs",
        "zh": "某个模块（或整个模型）的权重没有移动，与输入不在同一设备",
    },
    cure={
        "en": "move the module with the rest of the model; check encoders that remote code loads by itself",
        "zh": "把该模块与模型一起移动；检查由远程代码自行加载的编码器是否也移动了",
    },
    sentences={
        "copy-elsewhere": {
            "en": "{operand} is of a copy of the model that is on {device}; the same weight of another copy "
            "is elsewhere",
            "zh": "{operand} 属于放在 {device} 上的一份模型；另一份模型的同名权重在别的设备上",
        },
        "behind-a-hook": {
            "en": "{operand} was put on {elsewhere}, and the hook of the model before it sends {input} to "
            "{device}",
            "zh": "{operand} 被放在 {elsewhere} 上，而它前面的模型的 hook 把 {input} 送到了 {device}",
        },
        "not-where-its-code-sends": {
            "en": "{operand} is on {elsewhere} like all of its model, and the model's own code sends what it "
            "computes to {device}",
            "zh": "{operand} 与整个模型都在 {elsewhere}，而模型自己的代码把中间结果送到 {device}",
        },
        "joined-later": {
            "en": "{operand} came into the model after that had been placed, and was sent to {elsewhere}; "
            "{input} comes on {device}",
            "zh": "{operand} 是在模型放好之后才加入的，被送到了 {elsewhere}；而 {input} 在 {device} 上到来",
        },
        "apart-from-the-other": {
            "en": "{operand} is on {elsewhere}, and {input} was sent to {device}, where another model of the "
            "program is",
            "zh": "{operand} 在 {elsewhere} 上，而 {input} 被送到 {device}，那里是程序的另一个模型",
        },
        "not-registered": {
            "en": "{module} is kept in a plain list or attribute, so it is no part of {parent}: .to() "
            "does not reach it",
            "zh": "{module} 保存在普通列表或属性中，不是 {parent} 的子模块：.to() 不会移动它",
        },
    },
    page={"en": __doc__ or "", "zh": _CHINESE},
    common=0.25,
    signs=(
        sign(1.6, said("gpu-required")),
        sign(1.8, said("needs-gpu")),
        sign(6, said("module-apart")),
        sign(2.4, said("backend-device")),
        sign(4.5, said("collective-device"), shown(r"DistributedDataParallel\(|DDP\(")),
        sign(6, said("input-weight-type"), input_beside_weight("gpu")),
        sign(
            5,
            said("same-device argument-device", op="index_select|embedding", argument="^(?:index|indices)$"),
            named("gpu"),
        ),
        sign(8, said("embedding-device-old"), line(r"\bid\w*\.(?:to|cuda)\(|\w*ids\.(?:to|cuda)\(")),
        sign(
            5,
            said("argument-device", op="index_select|embedding", argument="^(?:self|weight)$"),
            named("host"),
        ),
        sign(4.2, said("same-device argument-device"), called(), product_with("weight")),
        sign(3.0, said("same-device argument-device"), unless(called()), product_with("weight")),
        sign(
            1.2,
            said("same-device argument-device"),
            unless(called()),
            product_with("weight"),
            in_a_layer(),
        ),
        sign(
            2.0,
            said("same-device argument-device", op="convolution|conv", argument="weight"),
            unless(product_with("input")),
        ),
        sign(
            3.6,
            said("same-device argument-device", devices="host"),
            line(
                r"\b(?:matmul|mm|bmm|linear|einsum|conv\w{0,12})\("
                r"\s{0,4}(?:['\"][^'\"]{1,40}['\"],\s{0,4})?self\.\w+|self\.\w+ @ "
            ),
            unless(product_with("input")),
        ),
        sign(1.2, said("same-device argument-device"), product_with("input")),
        sign(2.0, said("mps-placeholder")),
        sign(
            2.4,
            said("same-device argument-device", devices="host"),
            line(r"\b(?:layer_norm|linear|conv\dd|embedding|rms_norm|batch_norm)\(.*\bweight\b"),
            unless(product_with("input")),
        ),
        sign(2.2, said("triton-pointer"), anywhere(r"device=.?cpu|\.to\(.?cpu|torch\.compile|inductor")),
        sign(
            2.5,
            line(
                r"\b(?:vision_tower|vpm|visual|image_tower|audio_tower|vision_model|forward_features|patch_embed\w*|conv1)\b"
            ),
            said("same-device argument-device input-weight-type", devices="host"),
            unless(product_with("input")),
        ),
        sign(0.3, said("same-device argument-device", devices="host"), frameless()),
    ),
    detect=_detect,
)
