"""An additional input stays on the host, or on another GPU, although the main inputs were moved.

## What happens

Video seconds, grid sizes, positions, prompt ids or pixel values come with the ids, but only the ids were
moved. The code that reads the extra input combines it with something on a GPU.

## Why it fails

A processor returns several tensors. `inputs.input_ids.to(...)` moves one of them; keyword arguments that the
caller makes by hand are not moved at all, and hooks move only what enters a hooked module.

## Example

```python
ids = inputs["input_ids"].to("cuda:0")
model(input_ids=ids, second_per_grid_ts=inputs["second_per_grid_ts"])
```

## Use instead

```python
inputs = inputs.to(model.device)      # every tensor of the processor output
model(**inputs)
```

## Fix safety

Safe: only the place of an input changes.

## Known limits

Library code that makes a helper tensor beside the extra input fails at the same statement; then the input is
right and the helper is not (tensor-created-on-wrong-device).

## References

- `BatchFeature.to` of transformers
"""

from __future__ import annotations

from samedevice.diagnosis._failure import Failure
from samedevice.diagnosis._rule import Hint, Rule, anywhere, at, frameless, line, named, said, shown, sign
from samedevice.events import Operand
from samedevice.messages import Phrase
from samedevice.provenance.named_devices import takes_arguments
from samedevice.provenance.syntax import names_of


def _detect(failure: Failure) -> Hint | None:
    for operand in failure.read_on_host:
        key = "rules.extra-input-on-wrong-device.read-on-host"
        reads = Phrase(key, operand=failure.written(operand), op=failure.op, device=operand.device)
        return Hint(8, reads, operand.name, certain=True)
    if failure.mismatch and failure.looks_up:
        return _further_ids(failure)
    if not failure.mismatch or failure.computes_loss:
        return None
    for operand in failure.plain:
        if failure.activation(operand) or failure.made_inside(operand) or failure.beside_a_layer(operand):
            continue
        if (argument := failure.stayed_behind(operand)) is not None:
            if failure.weights and argument == failure.event.arguments[0][0]:
                continue  # the main input at a layer of the model
            came = Phrase("rules.extra-input-on-wrong-device.stayed-behind", operand=argument)
            return Hint(4.9 if _made_by_caller(failure, operand) else 7.5, came, operand.name)
    return next((hint for look in _LOOKS if (hint := look(failure)) is not None), None)


def _parted(failure: Failure) -> Hint | None:
    """An argument of a module inside the model that stayed away, while another argument of the same call came
    to where the module is: a mask, or what meets a weight there.
    """
    for operand in failure.plain:
        argument = failure.parted(operand)
        if argument is not None and (failure.weights or not failure.activation(operand)):
            key = "rules.extra-input-on-wrong-device.stayed-behind"
            return Hint(7.6, Phrase(key, operand=argument), operand.name)
    return None


def _made_by_caller(failure: Failure, operand: Operand) -> bool:
    """Whether a function that runs the model, and was itself given its tensors, made the argument: it may as
    well pass for a tensor that was created on the wrong device.
    """
    born = failure.born(operand)
    if born is None or born.at is None or born.source == "literal":
        return False
    place = born.at
    return failure.runs(place) and place.function != "<module>" and takes_arguments(place)


def _beside_an_object(failure: Failure) -> Hint | None:
    """What a method was given, or a part of it, away from the modules and a tensor of its object."""
    kept = next(filter(failure.with_its_modules, failure.plain), None)
    for operand in failure.plain if kept is not None else ():
        name = failure.written(operand)
        away = kept is not None and operand.device != kept.device and not failure.activation(operand)
        if away and failure.flow.is_argument(name.partition(".")[0].partition("[")[0]):
            key = "rules.extra-input-on-wrong-device.stayed-behind"
            return Hint(5.5, Phrase(key, operand=name), operand.name)
    return None


def _further_ids(failure: Failure) -> Hint | None:
    """Ids that stayed behind, where the main ones are with the table, or were looked up already."""
    ids = next((each for each in failure.plain if each.name == "indices"), None)
    argument = failure.stayed_behind(ids) if ids is not None else None
    first, *_ = [*failure.event.arguments, ("", "")]
    further = None if ids is None or failure.activation(ids) else ids.argument or ids.from_argument
    beside = ids is not None and failure.flow.is_further_argument(failure.expression(ids) or "")
    if (
        ids is not None
        and beside
        and further not in (None, first[0])
        and _looked_up_before(failure, first[0])
    ):
        came = Phrase("because.placed-by-user", operand=further or "", device=ids.device)
        return Hint(8.1, came, ids.name)
    weight = next((each for each in failure.weights if each.name == "weight"), None)
    for each in failure.plain:  # the offsets of a bag, or the weights of its samples
        if (
            ids is not None
            and each.device != ids.device
            and weight is not None
            and weight.device == ids.device
        ):
            name = failure.given(each) or failure.written(each)
            return Hint(
                7.5, Phrase("rules.extra-input-on-wrong-device.stayed-behind", operand=name), each.name
            )
    main = weight is not None and first[1] == weight.device and failure.flow.gave_a_layer(first[0])
    others = [device for name, device in failure.event.arguments if name not in (argument, first[0])]
    alone = weight is not None and bool(others) and {first[1], *others} == {weight.device}
    if ids is None or argument in (None, first[0]) or not (failure.event.differentiable or main or alone):
        return None
    came = Phrase("rules.extra-input-on-wrong-device.stayed-behind", operand=argument or "")
    return Hint(7.5, came, ids.name)


def _looked_up_before(failure: Failure, main: str) -> bool:
    """Whether the outermost module has given its main input to one of its layers, and goes on with what that
    computed: the ids that fail later are others.
    """
    depth = failure.flow.model_depth
    return depth is not None and len(failure.event.running) > 1 and failure.flow.gave_a_layer(main, depth)


def _sent_to_itself(failure: Failure) -> Hint | None:
    """What a module sent to its own device, which is that of its first weight, met another part of it."""
    here = failure.two_gpus and bool(failure.weights) and failure.flow.sends_to_itself()
    for operand in failure.plain if failure.two_gpus else ():
        newest = operand.decision
        if newest is None or failure.activation(operand):
            continue
        if here or (newest.kind, newest.source, newest.said) == ("moved", "tensor", "self"):
            key = "rules.extra-input-on-wrong-device.sent-to-model-device"
            given = Phrase(key, operand=failure.written(operand), device=operand.device)
            return Hint(5, given, operand.name)
    return None


def _taken_over(failure: Failure, operand: Operand) -> str | None:
    """The argument of the outermost module's own function that an operand was computed from alone."""
    roots = failure.flow.roots(failure.expression(operand) or "")
    of_model = {
        root.text for root in roots if (root.kind, root.depth) == ("argument", failure.flow.model_depth)
    }
    return of_model.pop() if len(roots) == 1 == len(of_model) else None


def _handed_in(failure: Failure) -> Hint | None:
    """An argument that the script gave to a library's module, away from what it meets there."""
    for operand in failure.plain:
        away = [other for other in failure.event.operands if other.device != operand.device]
        argument = operand.from_argument or _taken_over(failure, operand)
        argument = argument or (None if operand.lineage else operand.argument)
        if not away or argument is None or failure.activation(operand) or failure.made_inside(operand):
            continue
        if failure.at_home(operand) and not failure.left_others(operand):
            continue
        if failure.two_gpus and operand.device == failure.entry:
            continue  # where the hook of the whole model wants it
        if failure.taken_by_a_layer(operand) or any(map(failure.kept_by_the_model, away)):
            continue
        placed = Phrase("because.placed-by-user", operand=argument, device=operand.device)
        if operand.lineage or failure.placed_by_user(operand):
            if failure.left_others(operand):
                return Hint(5, Phrase("because.on-host", operand=failure.written(away[0])), away[0].name)
            return Hint(5, placed, operand.name)
    return None


def _forgotten(failure: Failure) -> Hint | None:
    """What a function of the script made without a device, beside others that it put on one, met what a model
    computed.
    """
    if failure.in_model or not failure.by_user(failure.event.at):
        return None
    for operand in failure.plain:
        others = [each for each in failure.event.operands if each.device != operand.device]
        born = failure.born(operand)
        elsewhere = born is not None and born.at is not None and not failure.made_here(operand)
        if elsewhere and any(failure.activation(each) for each in others) and failure.forgotten(operand):
            came = Phrase("rules.extra-input-on-wrong-device.forgotten", operand=failure.written(operand))
            return Hint(7.7, came, operand.name)
    return None


def _given_to_a_package(failure: Failure) -> Hint | None:
    """What the script made on the host met, in a function of a package, what is on a GPU."""
    if failure.in_model or failure.feeds_backward or failure.by_user(failure.event.at):
        return None
    for operand in failure.plain:
        born = failure.born(operand)
        others = [each for each in failure.event.operands if each.device != operand.device]
        default = born is not None and born.source in ("default", "context")
        if default and born is not None and failure.by_user(born.at) and operand.device == "cpu" and others:
            key = "rules.extra-input-on-wrong-device.from-input"
            came = Phrase(key, operand=failure.written(operand), device=operand.device)
            return Hint(5.2, came, operand.name)
    return None


def _sent_for_a_hook(failure: Failure) -> Hint | None:
    """What a function of the script had sent to the device that it was given met, in a function that the
    running model calls back, what a layer computed.
    """
    for operand in failure.plain if failure.in_model else ():
        newest = operand.decision
        if newest is None or newest.at is None or (newest.kind, newest.source) != ("moved", "argument"):
            continue
        others = [each for each in failure.event.operands if each.device != operand.device]
        over = not failure.runs(newest.at) and not failure.made_inside(operand)
        if operand.from_argument is not None:
            continue
        if over and failure.by_user(newest.at) and any(failure.activation(each) for each in others):
            key = "because.placed-by-user"
            return Hint(
                5.2, Phrase(key, operand=failure.written(operand), device=operand.device), operand.name
            )
    return None


def _enclosed(failure: Failure) -> Hint | None:
    """What a function that the running model calls back has from the function around it met what it was
    called with.
    """
    for operand in failure.plain if failure.in_model and failure.two_gpus else ():
        names = names_of(failure.expression(operand) or "")
        others = [each for each in failure.event.operands if each.device != operand.device]
        given = all(failure.flow.is_local(failure.expression(each) or "") for each in others)
        if others and given and names and all(failure.flow.is_enclosed(each) for each in names):
            key = "because.placed-by-user"
            return Hint(
                8.7, Phrase(key, operand=failure.written(operand), device=operand.device), operand.name
            )
    return None


def _after_the_model(failure: Failure) -> Hint | None:
    """Beside what the model computed stands data that the model's caller has and did not move."""
    if failure.in_model or failure.feeds_backward:
        return None
    for operand in failure.plain:
        others = [each for each in failure.event.operands if each.device != operand.device]
        computed = any(failure.activation(each) and not failure.sent_away(each) for each in others)
        sent = (
            operand.decision is not None and operand.decision.kind == "moved" and failure.activation(operand)
        )
        if not computed or failure.made_here(operand) or operand.holder:
            continue
        if failure.made_for_an_argument(operand):
            continue
        if failure.born(operand) is None and not sent:
            continue
        text = failure.expression(operand) or ""
        kept = text.startswith("self.") or operand.kept_by is not None
        moved = text.isidentifier() and failure.flow.moves_a_copy(text)
        if moved or (not kept and failure.handed_down(operand)):
            key = "rules.extra-input-on-wrong-device.from-input"
            came = Phrase(key, operand=failure.written(operand), device=operand.device)
            return Hint(6.2, came, operand.name)
    return None


_LOOKS = (
    _enclosed,
    _parted,
    _sent_to_itself,
    _handed_in,
    _after_the_model,
    _forgotten,
    _given_to_a_package,
    _sent_for_a_hook,
    _beside_an_object,
)

_CHINESE = """主输入移过去了，附加输入却留在 CPU 或另一块 GPU 上。

## 发生了什么

视频秒数、网格尺寸、位置、prompt id、像素值与 token id 一起返回，但只有 token id 被移动了。读取附加输入
的代码把它和 GPU 上的张量放到一起计算。

## 为什么会失败

processor 会返回好几个张量，`inputs.input_ids.to(...)` 只移动其中一个；调用者自己构造的关键字参数根本没
有移动；hook 只移动进入带 hook 模块的张量。

## 示例

```python
ids = inputs["input_ids"].to("cuda:0")
model(input_ids=ids, second_per_grid_ts=inputs["second_per_grid_ts"])
```

## 应当这样写

```python
inputs = inputs.to(model.device)      # processor 输出里的每个张量
model(**inputs)
```

## 修复是否安全

安全：改变的只是输入所在的位置。

## 已知局限

库代码在附加输入旁边自己创建的张量也会在同一条语句出错；那时输入没有错，错的是那个张量（见
tensor-created-on-wrong-device）。

## 参考

- transformers 的 `BatchFeature.to`
"""

RULE = Rule(
    code="SD113",
    name="extra-input-on-wrong-device",
    title={
        "en": "an extra input was left on another device",
        "zh": "附加输入留在了别的设备上",
    },
    meaning={
        "en": "a further input (seconds per grid, grid sizes, positions, pixel values) did not move with the "
        "main "
        "ones",
        "zh": "附加输入（如 second_per_grid_ts、grid_thw、position_ids、pixel_values）没有随主输入一起移动",
    },
    cure={
        "en": "move every tensor of the processor's output, and what you pass by keyword, to the device that "
        "reads it",
        "zh": "把 processor 输出的每个张量以及手动传入的关键字参数都移到使用它的设备",
    },
    sentences={
        "sent-to-model-device": {
            "en": "{operand} was sent to {device}, the device of the module's first parameter",
            "zh": "{operand} 被送到了 {device}，即模块第一个参数所在的设备",
        },
        "stayed-behind": {
            "en": "the argument {operand} is on another device than the other arguments",
            "zh": "参数 {operand} 与其他参数不在同一设备上",
        },
        "forgotten": {
            "en": "the function that made {operand} put others on a device, and not this one",
            "zh": "创建 {operand} 的函数把其他张量放到了设备上，唯独漏了它",
        },
        "read-on-host": {
            "en": "{op} reads {operand} on the host, and it is on {device}",
            "zh": "{op} 要在主机上读取 {operand}，而它位于 {device}",
        },
        "stays-on-host": {
            "en": "leave {operand} on the host, or bring it back for this call: {operand}.cpu()",
            "zh": "让 {operand} 留在主机上，或在这次调用时取回主机：{operand}.cpu()",
        },
        "from-input": {
            "en": "{operand} was computed from an input on {device}",
            "zh": "{operand} 由 {device} 上的输入计算而来",
        },
    },
    page={"en": __doc__ or "", "zh": _CHINESE},
    common=0.3,
    signs=(
        sign(5, said("graph-device")),
        sign(2, said("needs-gpu")),
        sign(2, said("needs-host")),
        sign(3, said("needs-host", argument=r"\w")),
        sign(
            3.6,
            said("same-device argument-device", devices="host"),
            line(r"[+*] \(?\w{0,20}(?:attention|padding|attn)_mask\b|masked_fill_?\(~?\w{0,20}mask\b"),
        ),
        sign(
            4.2,
            said("same-device argument-device", op="index_select", argument="^index$"),
            named("host"),
            line(r"(?<!torch)\.index_select\("),
        ),
        sign(
            4,
            line(
                r"second_per_grid|grid_thw|video_grid|image_sizes|cu_seqlens|pixel_values|pixel_attention_mask|prompt_ids|image_grid|patch_attention_mask"
            ),
        ),
        sign(
            4.8,
            said("same-device argument-device", argument="^index$"),
            named("host"),
            shown(r"\bedge_\w+"),
        ),
        sign(2.5, at(r"get_rope_index|rot_pos_emb|get_position|preprocess|get_vision_position")),
        sign(
            2.0,
            shown(r"second_per_grid|grid_thw|video_grid"),
            said("same-device argument-device index-device", devices="host"),
        ),
        sign(
            1.2,
            said("same-device argument-device", devices="host"),
            anywhere(r"\bvideos?\b|\bpixel_values\b"),
        ),
        sign(1.0, said("same-device argument-device", op="convolution|conv", devices="gpus")),
        sign(0.3, said("same-device argument-device", devices="host"), frameless()),
    ),
    detect=_detect,
)
