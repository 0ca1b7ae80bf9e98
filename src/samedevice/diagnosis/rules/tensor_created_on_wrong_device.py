"""Library or model code makes a helper tensor on the wrong device.

## What happens

A range, mask, index, position table or statistic is made without `device=` (so on the host), or on the device
of the wrong tensor, and then combined with an activation. A parameter that the parent module owns directly,
with no hook to move the activations to it, is the same case.

## Why it fails

`torch.arange(n)` makes its tensor on the default device, the host. On one GPU the code's own tests may pass
by luck: 0-dim host scalars are exempt, and `self.device` is right as long as there is one device.

## Example

```python
scale = torch.stack([w, h, w, h], dim=1)                # on the host
boxes = boxes * scale[:, None, :]
```

## Use instead

```python
scale = torch.stack([w, h, w, h], dim=1).to(boxes.device)
boxes = boxes * scale[:, None, :]
```

## Fix safety

Safe: the helper's values stay the same. It is a change of library code: prefer a release that has it, or
report it.

## Known limits

The line that makes the tensor is not always printed; then the place of the failing line is all there is.

## References

- [torch.arange](https://docs.pytorch.org/docs/stable/generated/torch.arange.html): the default of `device`
"""

from __future__ import annotations

import re

from samedevice.diagnosis._failure import FACTORY, Failure, made_text
from samedevice.diagnosis._rule import (
    Hint,
    Rule,
    anywhere,
    framed,
    frameless,
    indexed_on_host,
    line,
    named,
    said,
    shown,
    sign,
)
from samedevice.events import Operand
from samedevice.messages import Phrase


def _detect(failure: Failure) -> Hint | None:
    hint = _made_on_host(failure)
    if hint is not None or not failure.mismatch:
        return hint
    found = next((hint for look in _LOOKS if (hint := look(failure)) is not None), None)
    blamed = next((each for each in failure.plain if found is not None and each.name == found.guilty), None)
    if found is None or blamed is None:
        return found
    if failure.with_its_modules(blamed):
        return None
    other = _made_away_from_the_model(failure, blamed)
    return found if other is None else _without_device(found.weight, failure, other)


def _made_away_from_the_model(failure: Failure, beside: Operand) -> Operand | None:
    """What was made on the host without a device, beside a tensor that was made on the GPU of the model."""
    if beside.device == "cpu" or not failure.at_home(beside):
        return None
    on_host = (each for each in failure.plain if each.device == "cpu")
    made = [each for each in on_host if (born := failure.born(each)) is not None and born.source == "default"]
    return made[0] if len(made) == 1 else None


def _without_device(weight: float, failure: Failure, operand: Operand) -> Hint:
    newest = operand.decision
    if newest is not None and newest.source not in ("default", "context", None):
        return _made_elsewhere(weight, failure, operand)
    name, text = failure.written(operand), _decided(operand) or made_text(operand)
    if name == text:
        made = Phrase("rules.tensor-created-on-wrong-device.made-without-device-itself", operand=name)
    else:
        key = "rules.tensor-created-on-wrong-device.made-without-device"
        made = Phrase(key, operand=name, text=_brief(text))
    return Hint(weight, made, operand.name)


def _made_elsewhere(weight: float, failure: Failure, operand: Operand) -> Hint:
    made = Phrase(
        "rules.tensor-created-on-wrong-device.made-elsewhere",
        operand=failure.written(operand),
        device=operand.device,
        text=_brief(_decided(operand) or made_text(operand)),
    )
    return Hint(weight, made, operand.name)


def _decided(operand: Operand) -> str:
    """The expression that chose its device, where it was computed from what was made there."""
    newest = operand.decision
    place = None if newest is None or not newest.inherited else newest.at
    return "" if place is None else place.call or place.code


def _made_on_host(failure: Failure) -> Hint | None:
    """What an operator of another library, say, met on the host, where a factory made it."""
    for operand in failure.off_its_gpu:
        unmoved = operand.device == "cpu" and operand.moved is None and not operand.role
        if unmoved and FACTORY.search(made_text(operand)):
            return _without_device(6, failure, operand)
    return None


def _made_by_factory(failure: Failure) -> Hint | None:
    """What a factory made while the model ran, or in a library, away from all that it meets."""
    for operand in sorted(failure.plain, key=lambda each: each.device != "cpu"):
        if not _apart(failure, operand) or failure.follows(operand):
            continue
        born = failure.born(operand)
        if born is not None and failure.made_inside(operand):
            sure = 4.8 if _might_be_of_a_step(failure, operand) else 6.6
            if operand.device == "cpu" or born.source in ("default", "context", None):
                return _without_device(sure, failure, operand)
            return _made_elsewhere(min(sure, 6), failure, operand)
        if operand.lineage and (born is None or operand.from_argument is not None):
            continue
        if not failure.made_by_factory(operand):
            continue
        if operand.device == "cpu" and operand.moved is None:
            return _without_device(6, failure, operand)
        odd = failure.two_gpus and failure.odd(operand) is operand
        if odd and operand.moved is None and "_like" not in made_text(operand):
            return _made_elsewhere(3.5, failure, operand)
    return None


def _might_be_of_a_step(failure: Failure, operand: Operand) -> bool:
    """Whether it may as well pass for a state of a generation, or for a term of a loss."""
    if failure.in_model:
        return False
    state = failure.carried(operand) and failure.chooses_a_token
    return state or (bool(failure.event.differentiable) and failure.feeds_backward)


def _apart(failure: Failure, operand: Operand) -> bool:
    return any(other.device != operand.device for other in failure.event.operands)


def _made_by_default(failure: Failure) -> Hint | None:
    """The only operand that a default device put where it is, away from all others."""
    by_default = [
        operand
        for operand in failure.plain
        for step in operand.lineage[:1]
        if (step.kind, step.source, step.inherited) == ("created", "context", False)
    ]
    others = [each for each in failure.event.operands if each not in by_default]
    if len(by_default) != 1 or any(each.device == by_default[0].device for each in others):
        return None
    return _without_device(5, failure, by_default[0])


def _left_by_library(failure: Failure) -> Hint | None:
    """What a package made by default and used, or gave back, beside what is on a GPU."""
    for operand in failure.plain:
        if _apart(failure, operand) and failure.left_by_library(operand):
            return _without_device(6.4, failure, operand)
    return None


def _for_an_argument(failure: Failure) -> Hint | None:
    """What a helper made where an argument of its own is, beside what a model computed elsewhere."""
    for operand in failure.plain:
        others = [each for each in failure.event.operands if each.device != operand.device]
        computed = any(failure.activation(each) and not failure.sent_away(each) for each in others)
        if not computed or operand.holder or failure.made_here(operand) or failure.follows(operand):
            continue
        if failure.made_for_an_argument(operand):
            return _made_elsewhere(6.2, failure, operand)
    return None


def _kept(failure: Failure) -> Hint | None:
    """What an object keeps as a plain attribute on the device where a factory made it."""
    for operand in failure.plain:
        if not _apart(failure, operand) or operand.holder is not None or operand.from_argument is not None:
            continue
        if failure.is_kept(operand):
            continue  # a state that grows, and no constant
        if (kept := failure.plain_attribute(operand)) is not None:
            key = "rules.tensor-created-on-wrong-device.kept-plain"
            return Hint(6.3, Phrase(key, operand=kept[0], module=kept[1]), operand.name)
        attribute = (operand.local or "").startswith("self.")
        if _of_the_script(failure, operand):
            continue  # a package keeps what it was handed
        if failure.born(operand) is not None and (attribute or failure.from_attribute(operand)):
            if operand.device == "cpu":
                return Hint(6, Phrase("because.never-moved", operand=failure.written(operand)), operand.name)
            return _made_elsewhere(5.5, failure, operand)
    return None


def _kept_within(failure: Failure) -> Hint | None:
    """What the model was built with and keeps, and nothing that moves it reaches: it stayed where it was."""
    for operand in failure.plain:
        if _apart(failure, operand) and failure.kept_by_the_model(operand) and not operand.from_argument:
            key = "rules.tensor-created-on-wrong-device.kept-within"
            kept = Phrase(key, operand=failure.written(operand), module=operand.kept_within or "")
            return Hint(6.3, kept, operand.name)
    return None


def _of_the_script(failure: Failure, operand: Operand) -> bool:
    """Whether the script made what the code of a package reads."""
    born = failure.born(operand)
    return born is not None and failure.by_user(born.at) and not failure.by_user(failure.event.at)


def _computed(failure: Failure) -> Hint | None:
    """What the failing function computed from what a factory made without a device."""
    for operand in failure.plain:
        if operand.device != "cpu" or operand.moved is not None or not _apart(failure, operand):
            continue
        for part in operand.ingredients if not operand.lineage or failure.made_inside(operand) else ():
            text = "" if part.made is None else part.made.call or part.made.code
            if part.device == "cpu" and part.moved is None and part.role is None and FACTORY.search(text):
                source = Phrase(
                    "rules.tensor-created-on-wrong-device.computed-from",
                    operand=failure.written(operand),
                    source=part.name,
                    text=_brief(text),
                )
                return Hint(5, source, operand.name)
    return None


def _buffer_made_anew(failure: Failure) -> Hint | None:
    """A buffer that was given another tensor after the model was placed: all else of it is elsewhere."""
    running = failure.event.running
    homes = set(running[-1].below) if running else set()
    owner = {*running[0].own, *running[0].below} if len(running) > 1 else set()
    for buffer in failure.event.operands if running else ():
        if owner == {buffer.device} or _older_than_the_move(failure, buffer):
            continue  # the whole part that owns it was left there
        newest = buffer.decision
        made = newest is not None and newest.kind == "created" and newest.name is not None
        anew = failure.of_a_buffer(buffer) and (made or failure.computed_from_others(buffer))
        late = newest is not None and newest.at is not None and newest.at.function != "__init__"
        computed = () if failure.computes_loss else filter(failure.activation, failure.plain)
        met = {each.device for each in computed}
        beside = homes or (({*running[0].own} - {buffer.device} or met) if late else set())
        if anew and len(beside) == 1 and buffer.device not in beside:
            return _without_device(7.2, failure, buffer)
    return None


def _older_than_the_move(failure: Failure, buffer: Operand) -> bool:
    """Whether a buffer was there before anything of the model was placed, and no move has reached it."""
    newest = buffer.decision
    if buffer.role != "buffer" or newest is None or newest.kind != "created" or not failure.placements:
        return False
    return newest.order < min(each.first for each in failure.placements)


def _taken_away(failure: Failure) -> Hint | None:
    """Outside a model, what a function itself sent to a GPU that it names, away from all that it meets."""
    if failure.in_model or failure.weights or not failure.two_gpus:
        return None
    for operand in failure.plain:
        newest, before = (*operand.lineage[:2], None, None)[:2]
        if newest is None or before is None or newest.kind != "moved" or newest.source == "tensor":
            continue
        own = newest.at is not None and newest.at.function != "<module>" and operand.from_argument is None
        met = {each.device for each in failure.event.operands if each is not operand}
        if own and met == {before.device}:
            key = "rules.tensor-created-on-wrong-device.taken-away"
            values = {"operand": failure.written(operand), "device": operand.device, "home": before.device}
            return Hint(5.4, Phrase(key, **values), operand.name)
    return None


def _by_script(failure: Failure) -> Hint | None:
    """What the script made on the host and uses itself, outside the model."""
    for operand in failure.plain:
        born = failure.born(operand)
        here = failure.by_user(failure.event.at) and operand.device == "cpu" and born is not None
        if here and _apart(failure, operand) and operand.from_argument is None:
            sized = failure.sized_by_an_argument(operand)
            return _without_device(6.4 if sized else 4.5, failure, operand)
    return None


def _owned_directly(failure: Failure) -> Hint | None:
    alone = _unhooked(failure)
    if alone is None:
        return None
    owned = Phrase(
        "rules.tensor-created-on-wrong-device.owned-directly", operand=alone.parameter or alone.name
    )
    return Hint(5.5, owned, alone.name)


def _of_an_input(failure: Failure) -> Hint | None:
    """What was computed from an input, which is where the hook of the model wants it, met a later part."""
    for operand in failure.plain:
        newest = operand.decision
        computed = newest is not None and newest.inherited and operand.from_argument is not None
        others = [each for each in failure.event.operands if each.device != operand.device]
        later = any(failure.activation(each) or failure.follows(each) for each in others)
        if computed and later and operand.device == failure.entry:
            return _made_elsewhere(5.2, failure, operand)
    return None


def _on_host(failure: Failure) -> Hint | None:
    """What is on the host beside a GPU, and neither unknown nor placed by the script."""
    for operand in failure.plain:
        if operand.device != "cpu" or not _apart(failure, operand) or failure.given(operand) is not None:
            continue
        if operand.made is not None and not failure.placed_by_user(operand):
            return Hint(3.5, Phrase("because.on-host", operand=failure.written(operand)), operand.name)
    return None


def _index_elsewhere(failure: Failure) -> Hint | None:
    """An index on another GPU than what it indexes."""
    if not failure.two_gpus or failure.op not in _INDEXES:
        return None
    first = failure.event.operands[0]
    index = (each for each in failure.plain if each.name.startswith("ind") and each.device != first.device)
    return next((_made_elsewhere(4.5, failure, each) for each in index), None)


_INDEXES = ("index", "gather", "index_select", "take_along_dim", "index_copy_", "scatter")


def _unhooked(failure: Failure) -> Operand | None:
    """A parameter that the running module owns itself.

    What it meets comes from a submodule elsewhere.
    """
    for operand in failure.weights:
        owner, _, _ = (operand.parameter or "").rpartition(".")
        here = failure.event.running[0] if failure.event.running else None
        direct = (
            here is not None
            and len(here.below) > 1
            and (owner == here.name or not owner or here.name == here.kind)
        )
        if (
            direct
            and not _placed_by_map(operand)
            and len(failure.weights) < len(failure.event.operands)
            and not re.search(r"(?:^|\.)(?:weight|bias)$", operand.parameter or "")
        ):
            return operand
    return None


def _placed_by_map(operand: Operand) -> bool:
    return any(step.kind == "placed" and step.entry is not None for step in operand.lineage[:1])


def _brief(text: str) -> str:
    return text if len(text) <= 70 else f"{text[:67]}..."


def _by_a_function(failure: Failure) -> Hint | None:
    """What a function made that the failing one calls, on the device of what it was given, now or before."""
    for operand in failure.plain if failure.two_gpus else ():
        if (
            _apart(failure, operand)
            and not failure.activation(operand)
            and failure.made_for_this_call(operand)
        ):
            return _made_elsewhere(5.0, failure, operand)
    return None


_LOOKS = (
    _for_an_argument,
    _made_by_factory,
    _left_by_library,
    _kept,
    _kept_within,
    _made_by_default,
    _computed,
    _buffer_made_anew,
    _owned_directly,
    _of_an_input,
    _taken_away,
    _by_script,
    _on_host,
    _index_elsewhere,
    _by_a_function,
)
"""The surer ones first."""


_CHINESE = """库或模型代码把自己用的张量创建在了错误的设备上。

## 发生了什么

序列、掩码、索引、位置表或统计量创建时没有写 `device=`（于是在 CPU 上），或者跟了错误的张量的设备，随后
与激活一起计算。父模块直接持有的参数，如果没有 hook 把激活移过去，也是同样的情况。

## 为什么会失败

`torch.arange(n)` 在默认设备上创建张量，也就是 CPU。只用一块 GPU 测试时，可能碰巧通过：CPU 上的 0 维标量
是例外；只有一个设备时 `self.device` 也总是对的。

## 示例

```python
scale = torch.stack([w, h, w, h], dim=1)                # 在 CPU 上
boxes = boxes * scale[:, None, :]
```

## 应当这样写

```python
scale = torch.stack([w, h, w, h], dim=1).to(boxes.device)
boxes = boxes * scale[:, None, :]
```

## 修复是否安全

安全：张量的值不变。如果要改的是库代码，最好换用已修复的版本，或者向该库报告。

## 已知局限

创建张量的那一行不一定打印得出来；那时就只有出错那一行的位置。

## 参考

- [torch.arange](https://docs.pytorch.org/docs/stable/generated/torch.arange.html)：`device` 的默认值
"""


_INDEXING = r"gather|index_copy|scatter|index_add|index_fill|repeat_interleave|bucketize|searchsorted"
_INDEX = r"index|src|source|repeats"

_ASSIGNS_WHAT_IT_MAKES = r"\]\s?=\s?(?!\w+\.(?:to|cuda)\()(?:[\w.]*\.)?\w+\((?!.*\)\.(?:to|cuda)\()"
"""What is assigned is made in that line, and not moved there."""

RULE = Rule(
    code="SD115",
    name="tensor-created-on-wrong-device",
    title={
        "en": "a helper tensor was made on the wrong device",
        "zh": "辅助张量创建在了错误的设备上",
    },
    meaning={
        "en": "code makes a range, mask, index or constant without a device, or on the device of another "
        "tensor "
        "than it is combined with",
        "zh": "代码创建 arange、掩码、索引或常量时没有指定 device，或用了别的张量的设备",
    },
    cure={
        "en": "make it on the device of the tensor it is combined with; until the library does, use a "
        "release that does or one GPU",
        "zh": "在与之运算的张量的设备上创建它；库修复之前，换用已修复的版本或只用一块 GPU",
    },
    sentences={
        "cure-of-own": {
            "en": "make it on the device of the tensor it is combined with",
            "zh": "在与之运算的张量所在的设备上创建它",
        },
        "made-without-device": {
            "en": "{operand} was made without a device: {text}",
            "zh": "创建 {operand} 时没有指定设备：{text}",
        },
        "made-without-device-itself": {
            "en": "{operand} was made without a device",
            "zh": "创建 {operand} 时没有指定设备",
        },
        "owned-directly": {
            "en": "{operand} belongs to the parent itself, and no hook moves what it meets",
            "zh": "{operand} 直接属于父模块，没有 hook 搬运与之运算的张量",
        },
        "made-elsewhere": {
            "en": "{operand} was made on {device}: {text}",
            "zh": "{operand} 创建在 {device} 上：{text}",
        },
        "taken-away": {
            "en": "{operand} was sent from {home} to {device}, and nothing brings it back",
            "zh": "{operand} 从 {home} 被送到了 {device}，之后没有送回来",
        },
        "kept-plain": {
            "en": "{operand} is a plain attribute of {module}: .to() moves parameters and buffers, and "
            "leaves it where it was made",
            "zh": "{operand} 是 {module} 的普通属性：.to() 只移动参数和 buffer，它留在了创建时的设备上",
        },
        "kept-within": {
            "en": "{operand} is kept by {module} and is none of its parameters and buffers: .to() does not "
            "reach it, and leaves it where it was made",
            "zh": "{operand} 由 {module} 保存，却不是它的参数或 buffer：.to() 到不了它，它留在原处",
        },
        "computed-from": {
            "en": "{operand} was computed from {source}, which was made without a device: {text}",
            "zh": "{operand} 由 {source} 计算而来，而创建 {source} 时没有指定设备：{text}",
        },
    },
    page={"en": __doc__ or "", "zh": _CHINESE},
    common=0.5,
    signs=(
        sign(
            4.2,
            anywhere(
                r"creat(?:es?|ed|ing) [^\n.]{0,40}\btensors?\b[^\n.]{0,40}\bon [^\n]{1,40} instead of "
                r"[^\n.]{0,40}\bdevice\b"
                r"|创建[^\n。]{0,40}而不是[^\n。]{0,30}设备"
            ),
        ),
        sign(
            4.5,
            line(
                r"torch\.(?:arange|zeros|ones|full|tensor|linspace|eye|empty)|\b(?:arange|zeros|ones|full|linspace|LongTensor|new_zeros|new_ones|as_tensor|from_numpy|zeros_like)\b"
                r"(?!\((?:[^()\n]|\([^()\n]{0,80}\)){0,120}\)\.(?:to|cuda)\()"
            ),
        ),
        sign(
            3.6,
            line(
                r"latents_(?:mean|std)|pos_embed|position_embeddings?\b|scale_fct|freq_bands|\bpositions?\b|row_ids|(?<![.\w])(?:mean|std)\b|bias_mask|causal_mask|rel_pos|relative_position|shift_factor"
            ),
        ),
        sign(4.4, line(r"\[\s?str\(\w+\.(?:size\(\)|shape)\)\s?\]")),  # kept by its size, for one device
        sign(7, said("graph-device"), shown(_ASSIGNS_WHAT_IT_MAKES)),
        sign(4.2, said("same-device argument-device", op=_INDEXING, argument=_INDEX), named("host")),
        sign(4.2, said("same-device argument-device", op=_INDEXING, argument=_INDEX), named("another")),
        sign(2.2, said("mask-device")),
        sign(5, said("input-weight-type", argument="^hidden$")),
        sign(2.2, said("collective-device")),
        sign(2.2, said("cat-device-old", devices="host")),
        sign(4.5, said("gradient-device", op=r"Backward$")),
        sign(2, said("gradient-device")),
        sign(2.2, said("index-device")),
        sign(2.8, said("index-device"), indexed_on_host(), line(r"\w\[")),
        sign(
            4.2,
            line(r"\.cpu\(\)|\.to\(['\"]cpu['\"]|device=['\"]cpu"),
            said("same-device argument-device index-device mask-device", devices="host"),
        ),
        sign(
            2.0, said("same-device argument-device index-device type-combination", devices="host"), framed()
        ),
        sign(
            1.0,
            said("same-device argument-device", devices="gpus"),
            line(r"interpolat|position|mask|index|offset"),
        ),
        sign(1.0, said("same-device argument-device", devices="host")),
        sign(0.6, said("same-device", devices="host"), frameless()),
        sign(0.6, said("same-device", devices="gpus"), frameless()),
        sign(0.8, said("mps-placeholder")),
        sign(1.5, said("triton-pointer")),
        sign(1.5, said("numpy-conversion")),
    ),
    detect=_detect,
)
