"""A model that was dispatched is moved as a whole.

## What happens

The script, a trainer, DeepSpeed, a user interface or a wrapper calls `.to()` or `.cuda()` on a model that was
placed by a map or is partly offloaded.

## Why it fails

The weights follow the move, the hooks do not: they go on sending inputs to the old places. With offloaded
parts there is nothing to move, since their weights are placeholders on meta; accelerate and transformers then
refuse.

## Example

```python
model = AutoModelForCausalLM.from_pretrained(name, device_map="auto")
model.to("cuda:0")
```

## Use instead

```python
model = AutoModelForCausalLM.from_pretrained(name, device_map={"": "cuda:0"})
```

## Fix safety

Safe: without the move the model stays where the map put it. Dropping the map needs room on one GPU.

## Known limits

A meta copy error inside a `.to()` can also be a checkpoint that never filled its weights.

## References

- `dispatch_model` of accelerate
"""

from __future__ import annotations

import re

from samedevice.diagnosis._failure import Failure, moved_text
from samedevice.diagnosis._rule import MAPPED, Hint, Rule, anywhere, hooked_layer, inside, line, said, sign
from samedevice.messages import Phrase

_DISPATCHED = (
    rf"{MAPPED}|\boffload\w*|\bdispatch\w*|\bhooks?\b|\b(?:low|med)[-_ ]?vram\b"
    r"|low_cpu_mem|load_in_[48]bit|\bquantiz\w+"
)
"""What tells that the model was placed part by part, so that some of it may be offloaded."""


def _detect(failure: Failure) -> Hint | None:
    if not failure.mismatch or not failure.dispatched:
        return None
    for operand in failure.weights:
        if failure.joined_later(operand):
            continue  # no part of what was dispatched
        placed = failure.mapped(operand.parameter or "")
        hook = failure.event.running[0].hook if failure.event.running else None
        text = moved_text(operand)
        by_whole = re.search(r"\.(?:to|cuda|cpu)\(", text) and "/accelerate/" not in (
            operand.moved.file if operand.moved else ""
        )
        if (
            by_whole
            and (hook not in (None, operand.device) or placed not in (None, operand.device))
            and operand.device != "meta"
        ):
            return Hint(
                8,
                Phrase(
                    "rules.dispatched-model-moved.moved-after-dispatch",
                    operand=operand.parameter or operand.name,
                    text=text[:60],
                ),
                operand.name,
            )
    moved = [
        each for each in failure.event.running if each.hook and each.below and each.hook not in each.below
    ]
    in_place = failure.weights and all(
        failure.mapped(each.parameter or "") == each.device for each in failure.weights
    )
    if moved and not in_place:
        odd = failure.odd(*failure.event.operands)
        return Hint(
            6.5,
            Phrase(
                "rules.dispatched-model-moved.hook-elsewhere",
                module=moved[0].name,
                hook=moved[0].hook or "?",
                devices=", ".join(moved[0].below),
            ),
            odd.name if odd else None,
        )
    return None


_CHINESE = """已经按 `device_map` 分配的模型又被整体移动。

## 发生了什么

脚本、训练器、DeepSpeed、图形界面或包装代码对模型调用了 `.to()` 或 `.cuda()`，而这个模型已按
`device_map` 放好，或部分 offload。

## 为什么会失败

权重跟着移动了，hook 却没有：它们仍然把输入送到原来的位置。offload 的部分在 meta 上只有占位，没有数据可
移；accelerate 和 transformers 会因此拒绝。

## 示例

```python
model = AutoModelForCausalLM.from_pretrained(name, device_map="auto")
model.to("cuda:0")
```

## 应当这样写

```python
model = AutoModelForCausalLM.from_pretrained(name, device_map={"": "cuda:0"})
```

## 修复是否安全

安全：不移动，模型就留在 `device_map` 放好的位置。去掉 `device_map` 则需要一块 GPU 放得下整个模型。

## 已知局限

在 `.to()` 里出现的 meta 拷贝错误，也可能是 checkpoint 没有填满权重。

## 参考

- accelerate 的 `dispatch_model`
"""

RULE = Rule(
    code="SD123",
    name="dispatched-model-moved",
    title={
        "en": "a dispatched model was moved",
        "zh": "已按 device_map 分配的模型又被整体移动",
    },
    meaning={
        "en": "a model that was placed by a map, or is partly offloaded, is moved with .to() or .cuda()",
        "zh": "按 device_map 放置或部分 offload 的模型又被 .to()/.cuda() 移动",
    },
    cure={
        "en": "do not move it again: load it straight to the wanted device, or drop the map",
        "zh": "不要再移动它：直接加载到目标设备，或去掉 device_map",
    },
    sentences={
        "hook-elsewhere": {
            "en": "the hook of {module} sends inputs to {hook}, its weights are on {devices}",
            "zh": "{module} 的 hook 把输入送到 {hook}，而权重在 {devices}",
        },
        "moved-after-dispatch": {
            "en": "{operand} was moved after the model was dispatched: {text}",
            "zh": "模型分配之后 {operand} 又被移动：{text}",
        },
    },
    page={"en": __doc__ or "", "zh": _CHINESE},
    common=0.3,
    signs=(
        sign(8, said("move-dispatched"), certain=True),
        sign(7, said("move-dispatched-warning"), certain=True),
        sign(
            7,
            said("same-device argument-device"),
            anywhere(r"You should not move a model (?:that is|when it is) dispatched"),
        ),
        sign(4.6, said("same-device argument-device", devices="gpus"), hooked_layer()),
        sign(3.8, said("meta-copy"), line(r"\bto\(|\.to\b|\.cuda\b|\bcuda\("), anywhere(_DISPATCHED)),
        sign(2.8, said("meta-copy"), inside(r"_move_model_to_device|^prepare(?:_model)?$|^_prepare_\w+$")),
        sign(2.4, said("meta-copy")),
        sign(
            3.2,
            said("no-exception"),
            anywhere(r"given a device_map|ends up on one device|device_map[^.]{0,60}one device"),
        ),
    ),
    detect=_detect,
)
