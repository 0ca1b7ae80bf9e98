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

import re

from samedevice.diagnosis._failure import Failure, made_text, moved_text
from samedevice.diagnosis._rule import Hint, Rule, anywhere, at, frameless, line, said, shown, sign
from samedevice.events import Operand
from samedevice.messages import Phrase


def _detect(failure: Failure) -> Hint | None:
    if not failure.mismatch or failure.op.startswith(("embedding", "nll_loss", "cross_entropy")):
        return None
    for operand in () if failure.computes_loss else failure.plain:
        if (argument := failure.stayed_behind(operand)) is not None:
            came = Phrase("rules.extra-input-on-wrong-device.stayed-behind", operand=argument)
            return Hint(7.5, came, operand.name)
    if failure.two_gpus and failure.weights and failure.plain and _SENT.search(failure.code):
        sent = failure.plain[0]
        return _sent(sent, sent.argument or sent.name)
    if (hint := _handed_in(failure)) is not None:
        return hint
    own = failure.event.user_at is not None and re.search(r"self\.device\b", failure.code)
    if own and failure.hosted and not failure.weights:
        return None
    for operand in failure.plain:
        if failure.two_gpus and _SENT.search(moved_text(operand)):
            return _sent(operand, operand.local or operand.name)
    if failure.hosted and failure.weights and all(each.device.startswith("cuda") for each in failure.weights):
        for operand in failure.plain:
            if operand.device == "cpu" and _from_input(operand):
                name = operand.local or operand.name
                came = Phrase("rules.extra-input-on-wrong-device.from-input", operand=name)
                return Hint(4, came, operand.name)
    return None


_SENT = re.compile(r"\.to\((?:device=)?self\.device")


def _sent(operand: Operand, name: str) -> Hint:
    key = "rules.extra-input-on-wrong-device.sent-to-model-device"
    return Hint(5, Phrase(key, operand=name, device=operand.device), operand.name)


def _handed_in(failure: Failure) -> Hint | None:
    """An argument that the script placed, in its own forward or in a library."""
    for operand in failure.plain:
        name = (operand.argument or operand.local or "").partition("[")[0].partition(".")[0]
        away = any(other.device != operand.device for other in failure.event.operands)
        if not away or re.search(r"label|target|loss|hidden|^self$|^x$|num_items", name):
            continue
        by_user = failure.by_user(failure.event.at)
        placed = Phrase("because.placed-by-user", operand=name, device=operand.device)
        if by_user and failure.handed_in(operand) and failure.event.at.function == "forward":
            return Hint(6.4, placed, operand.name)
        if failure.placed_by_user(operand) and name and not by_user:
            if failure.left_others(operand):
                left = next(other for other in failure.event.operands if other.device != operand.device)
                return Hint(5, Phrase("because.on-host", operand=left.local or left.name), left.name)
            return Hint(5, placed, operand.name)
    return None


def _from_input(operand: Operand) -> bool:
    """Whether the line that made it only computed with what it got: no factory made it here."""
    text = made_text(operand)
    return bool(text) and not re.search(
        r"torch\.(?:arange|zeros|ones|full|tensor|empty|linspace|eye|rand)|Tensor\(", text
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
        "from-input": {
            "en": "{operand} was computed from an input on the host",
            "zh": "{operand} 由 CPU 上的输入计算而来",
        },
    },
    page={"en": __doc__ or "", "zh": _CHINESE},
    common=0.3,
    signs=(
        sign(5, said("graph-device")),
        sign(2, said("needs-gpu")),
        sign(
            4,
            line(
                r"second_per_grid|grid_thw|video_grid|image_sizes|cu_seqlens|pixel_values|pixel_attention_mask|prompt_ids|image_grid|patch_attention_mask"
            ),
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
