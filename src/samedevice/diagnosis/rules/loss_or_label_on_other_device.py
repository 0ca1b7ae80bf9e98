"""Labels, class weights, counts or loss terms are on another device than the logits or the running loss.

## What happens

The labels stayed on the host or on the GPU of the inputs, while the logits come out on the last GPU; or two
terms of a loss were computed on two GPUs.

## Why it fails

Inputs pass a hook, labels pass it too and are then read at the end of the model, where the head is. 0-dim
tensors on two *GPUs* are refused as well; only 0-dim host scalars are exempt.

## Example

```python
logits = model(input_ids).logits                        # cuda:1
loss = criterion(logits, labels)                         # labels on cuda:0
```

## Use instead

```python
loss = criterion(logits, labels.to(logits.device))
```

## Fix safety

Safe: labels carry no gradient; a loss term keeps its gradient when it is moved.

## Known limits

In a library's own loss function the repair is a release of the library.

## References

- [torch.nn.functional.cross_entropy](https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.cross_entropy.html)
"""

from __future__ import annotations

import re

from samedevice.diagnosis._failure import Failure, made_text, spelled
from samedevice.diagnosis._rule import Hint, Rule, at, frameless, inside, line, said, shown, sign
from samedevice.messages import Phrase


def _detect(failure: Failure) -> Hint | None:
    if not failure.mismatch:
        return None
    target = next(
        (
            each
            for each in failure.plain
            if each.name == "target"
            or re.search(r"^labels?$|num_items|^targets?$|shift_labels", each.local or each.argument or "")
        ),
        None,
    )
    if failure.computes_loss:
        odd = failure.alone or target or failure.odd(*failure.plain)
        sure = odd is not None and failure.placed_by_user(odd)
        return Hint(
            8 if sure else 6.5,
            Phrase("rules.loss-or-label-on-other-device.loss", op=failure.op),
            odd.name if odd else None,
        )
    away = target is not None and any(each.device != target.device for each in failure.event.operands)
    if target is not None and away and not failure.made_here(target):
        return Hint(
            6.5,
            Phrase("rules.loss-or-label-on-other-device.label", operand=target.local or target.name),
            target.name,
        )
    if (
        re.search(r"\bloss\b|_loss|loss_", f"{failure.code} {failure.event.at.function}".lower())
        or "/loss/" in failure.where
    ):
        odd = next(
            (
                each
                for each in failure.event.operands
                if re.search(r"aux|items|weight|count", spelled(each) + made_text(each))
            ),
            None,
        ) or failure.odd(*failure.event.operands)
        return Hint(
            5.5, Phrase("rules.loss-or-label-on-other-device.loss", op=failure.op), odd.name if odd else None
        )
    return None


_CHINESE = """标签、类别权重、计数或某一项 loss 与 logits 或累计的 loss 不在同一设备上。

## 发生了什么

标签留在 CPU 或输入所在的 GPU，而 logits 出现在最后一块 GPU；或者 loss 的两项分别在两块 GPU 上算出。

## 为什么会失败

输入会经过 hook；标签也经过，但要到模型末尾才被读取，那里是输出头所在的设备。两块 *GPU* 上的 0 维张量同
样不允许混用，例外只有 CPU 上的 0 维标量。

## 示例

```python
logits = model(input_ids).logits                        # cuda:1
loss = criterion(logits, labels)                         # labels 在 cuda:0
```

## 应当这样写

```python
loss = criterion(logits, labels.to(logits.device))
```

## 修复是否安全

安全：标签没有梯度；loss 的一项移动后，梯度照样传回。

## 已知局限

如果出在库自己的 loss 函数里，只能换用修复过的版本。

## 参考

-
  [torch.nn.functional.cross_entropy](https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.cross_entropy.html)
"""

RULE = Rule(
    code="SD130",
    name="loss-or-label-on-other-device",
    title={
        "en": "labels or a loss term are on another device",
        "zh": "标签或损失项在别的设备上",
    },
    meaning={
        "en": "labels, class weights, counts or terms of the loss are not on the device of the logits",
        "zh": "标签、类别权重、计数或损失项不在 logits 所在的设备上",
    },
    cure={
        "en": "move the labels to logits.device, or the smaller loss term to the running loss",
        "zh": "把 labels 移到 logits.device，或把较小的损失项移到累加损失所在的设备",
    },
    sentences={
        "loss": {"en": "{op} computes a loss", "zh": "{op} 在计算损失"},
        "label": {"en": "{operand} belongs to the loss", "zh": "{operand} 属于损失计算"},
    },
    page={"en": __doc__ or "", "zh": _CHINESE},
    common=0.45,
    signs=(
        sign(
            8,
            said(
                "same-device argument-device",
                op="nll_loss|cross_entropy|binary_cross|mse_loss|smooth_l1|ctc_loss|kl_div",
                argument="target|weight|labels",
            ),
            certain=True,
        ),
        sign(7, said("same-device argument-device", argument="^target$")),
        sign(
            5,
            line(
                r"CrossEntropyLoss|cross_entropy|loss_fct|loss_fn|\blabels?\b|criterion|nll_loss|\bloss\b|log_?probs?\b|logps?\b|num_items_in_batch|aux_loss|ref_log|per_token_logps|logratios?|tr_loss"
            ),
        ),
        sign(
            3.6,
            at(
                r"compute_loss|loss_function|loss_utils|get_batch_log|_loss|training_step|log_prob|logprobs|(?<![a-z])(?:dpo|ppo|grpo)(?![a-z])|reward"
            ),
        ),
        sign(2.8, shown(r"compute_loss|CrossEntropyLoss|loss_fct|labels\b|logps")),
        sign(
            2.0,
            inside(r"compute_loss|(?<![a-z])(?:dpo|ppo|grpo)(?![a-z])"),
            said("same-device argument-device"),
        ),
        sign(1.6, said("mask-device")),
        sign(0.6, said("same-device argument-device", devices="gpus"), frameless()),
    ),
    detect=_detect,
)
