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

import ast

from samedevice.diagnosis._failure import Failure, writes_itself
from samedevice.diagnosis._rule import (
    Hint,
    Rule,
    anywhere,
    at,
    fails_in_a_layer,
    frameless,
    inside,
    line,
    product_with,
    said,
    shown,
    sign,
    unless,
)
from samedevice.events import Operand
from samedevice.messages import Phrase
from samedevice.provenance.syntax import names_of, parsed


def _detect(failure: Failure) -> Hint | None:
    if not failure.mismatch:
        return None
    if failure.computes_loss:
        odd = _not_predicted(failure)
        if odd is not None and not failure.loss_of_torch and _by_itself(failure, odd):
            return None  # the function chose its device, whatever the function computes
        if odd is not None and not failure.loss_of_torch and failure.plain_attribute(odd) is not None:
            return None  # a table of the criterion itself, which moving it does not reach
        sure = odd is not None and (failure.placed_by_user(odd) or bool(odd.lineage))
        newest = None if odd is None else odd.decision
        of_checkpoint = newest is not None and newest.kind == "loaded" and not newest.inherited
        return Hint(
            6.2 if of_checkpoint else 8 if sure else 6.5,
            Phrase("rules.loss-or-label-on-other-device.loss", op=failure.op),
            odd.name if odd else None,
        )
    looks = (
        _of_a_criterion,
        _sum_of_losses,
        _likelihood,
        _beside_the_model,
        _left_beside_what_was_moved,
        _of_an_objective,
        _of_another_model,
        _of_two_models,
    )
    return next((hint for look in looks if (hint := look(failure)) is not None), None)


def _by_itself(failure: Failure, operand: Operand) -> bool:
    """Whether a function put it on the GPU that the line names."""
    newest = operand.decision
    if newest is None or newest.device == "cpu":
        return False
    named = newest.source in ("literal", "current-gpu") or writes_itself(newest)
    return named and newest.at is not None and newest.at.function != "<module>"


def _not_predicted(failure: Failure) -> Operand | None:
    """Of the operands of a loss the one that is no prediction: alone, or on the host, or not given first."""
    if failure.alone is not None:
        return failure.alone
    given = [each for each in failure.plain if not failure.activation(each)]
    if len(given) == 1 and len(failure.plain) > 1:
        return given[0]
    target = next((each for each in failure.plain if each.name in ("target", "weight", "pos_weight")), None)
    first, *_ = [*failure.flow.arguments(), None]
    later = [each for each in failure.plain if each.local is not None and each.local != first]
    data = [each for each in later if not failure.activation(each)]
    return target or next(iter((*data, *later)), None) or failure.odd(*failure.plain)


def _sum_of_losses(failure: Failure) -> Hint | None:
    """Numbers without a dimension, computed by layers on several GPUs, or added up from step to step."""
    numbers = [each for each in failure.event.operands if each.shape in ((), (1,)) and not each.role]
    if len(numbers) < 2 or len(numbers) != len(failure.event.operands):
        return None
    computed = [each for each in numbers if failure.activation(each)]
    if any(failure.from_gradient(each) for each in numbers):
        return None  # what gradients amount to, once they are taken
    learns = failure.feeds_backward and bool(failure.event.differentiable)
    if failure.op.rstrip("_") not in _ADDS or not (
        learns or any(each.dtype.startswith(_FLOATS) for each in computed)
    ):
        return None
    others = [each for each in numbers if each not in computed]
    odd = others[0] if computed and others else numbers[-1]
    if not failure.activation(odd) and _by_itself(failure, odd):
        return None
    return Hint(6.2, Phrase("rules.loss-or-label-on-other-device.loss", op=failure.op), odd.name)


_ADDS = ("add", "sub", "mul", "div", "stack", "cat", "sum")
_FLOATS = ("float", "bfloat")


def _likelihood(failure: Failure) -> Hint | None:
    """Ids that pick their own logarithms out of what the model computed, outside it: the sum of these is the
    likelihood of the ids.
    """
    if failure.in_model or failure.op not in _PICKS or failure.chooses_a_token:
        return None
    scores, *others = failure.event.operands
    ids = next((each for each in others if each.device != scores.device), None)
    if ids is None or not failure.activation(scores) or failure.activation(ids):
        return None
    if not failure.flow.comes_from_attribute(failure.expression(scores) or "", "log_softmax", called=True):
        return None
    phrase = Phrase("rules.loss-or-label-on-other-device.label", operand=failure.written(ids))
    return Hint(6.2, phrase, ids.name)


_PICKS = ("gather", "take_along_dim", "index")


def _left_beside_what_was_moved(failure: Failure) -> Hint | None:
    """An argument of the failing function that nobody moved, beside what was made where another argument of
    it is, in what gradients are taken of.
    """
    if failure.in_model or not failure.feeds_backward:
        return None
    for left in failure.plain:
        born, text = failure.born(left), failure.expression(left) or ""
        handed = born is not None and not failure.made_here(left) and failure.flow.is_argument(text)
        for made in failure.plain if handed else ():
            beside = made.decision
            follows = beside is not None and (beside.kind, beside.source) == ("created", "tensor")
            follows = follows and failure.made_here(made) and made.device != left.device
            if beside is not None and follows and failure.flow.is_argument(beside.said or ""):
                phrase = Phrase("rules.loss-or-label-on-other-device.label", operand=failure.written(left))
                return Hint(6.2, phrase, left.name)
    return None


def _beside_the_model(failure: Failure) -> Hint | None:
    """Outside the model, what it computed meets something else: in what `backward` is called on, or where the
    two are compared.
    """
    if failure.in_model or any(place.function == "forward" for place in failure.event.stack[:-1]):
        return None
    for label in failure.plain:
        others = [each for each in failure.event.operands if each.device != label.device]
        predicted = any(failure.activation(each) for each in others)
        compared = failure.op in ("eq", "ne") and not any(failure.carried(each) for each in others)
        if not predicted or failure.activation(label) or failure.made_here(label) or label.holder:
            continue
        if failure.event.running and failure.from_attribute(label):
            continue  # a part of what computes
        if label.decision is not None and label.decision.kind == "created" and label.decision.name:
            continue  # a weight or table of a module
        if failure.feeds_backward or (compared and failure.born(label) is not None):
            phrase = Phrase("rules.loss-or-label-on-other-device.label", operand=failure.written(label))
            return Hint(
                4.6 if failure.forgotten(label) or failure.sized_by_an_argument(label) else 6.5,
                phrase,
                label.name,
            )
    return None


def _of_another_model(failure: Failure) -> Hint | None:
    """Outside the models, what one computed without gradients meets what gradients are taken of."""
    if failure.in_model or not failure.event.differentiable or not failure.feeds_backward:
        return None
    computed = [each for each in failure.plain if failure.activation(each)]
    texts = {each.name: failure.expression(each) or "" for each in computed}
    graph = set(failure.event.differentiable)
    learns = [each for each in computed if graph & names_of(texts[each.name])]
    for target in computed:
        name = texts[target.name]
        fixed = _reads_a_name(name) and target not in learns
        if fixed and any(each.device != target.device for each in learns):
            phrase = Phrase("rules.loss-or-label-on-other-device.label", operand=failure.written(target))
            return Hint(7.4, phrase, target.name)
    return None


def _of_a_criterion(failure: Failure) -> Hint | None:
    """A module without weights, whose result is a loss of torch, met what a model computed with an argument
    that no model did.
    """
    outermost = failure.event.running[-1] if failure.event.running else None
    if outermost is None or outermost.below or outermost.own or not failure.feeds_backward:
        return None
    if not failure.returns_loss:
        return None
    predicted = [each for each in failure.plain if failure.activation(each)]
    for label in failure.plain:
        given = label.from_argument is not None and label not in predicted
        if given and any(each.device != label.device for each in predicted):
            phrase = Phrase("rules.loss-or-label-on-other-device.label", operand=failure.written(label))
            return Hint(7.4, phrase, label.name)
    return None


def _of_two_models(failure: Failure) -> Hint | None:
    """Outside the models, what two of them computed without gradients becomes a part of what is learned."""
    if failure.in_model or not failure.feeds_backward:
        return None
    met = failure.of_two_models([each for each in failure.plain if failure.activation(each)])
    if met is None:
        return None
    phrase = Phrase("rules.loss-or-label-on-other-device.label", operand=failure.written(met[1]))
    return Hint(6.4, phrase, met[1].name)


def _reads_a_name(text: str) -> bool:
    """Whether an expression only reads what somebody computed before: `target`, `batch["target"]`."""
    node = parsed(text)
    return node is not None and not any(isinstance(each, ast.Call | ast.BinOp) for each in ast.walk(node))


def _of_an_objective(failure: Failure) -> Hint | None:
    """What a function outside the model keeps, where it is given what gradients are taken of and returns what
    `backward` is called on.
    """
    if failure.event.running or not failure.event.differentiable or not failure.feeds_backward:
        return None
    for kept in failure.plain:
        apart = any(each.device != kept.device for each in failure.event.operands)
        made = failure.born(kept) is not None and not failure.made_here(kept) and not failure.follows(kept)
        if apart and made and kept.device == "cpu" and failure.from_attribute(kept):
            phrase = Phrase("rules.loss-or-label-on-other-device.label", operand=failure.written(kept))
            return Hint(7.4, phrase, kept.name)
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
        sign(4.2, line(r"\bif pred\w* (?:not )?in \w*(?:target|label|truth)\w*:")),
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
        sign(6, said("same-device", argument="^loss$")),
        sign(7, said("needs-host"), anywhere(r"struct THCuda\w+"), anywhere(r"\b\w*loss\w*\(")),
        sign(
            4.2,
            said("same-device argument-device", devices="host"),
            line(r"\b(?:targets?|gt_\w+|ground_truth|y_true)\b(?!\s?=[^=])"),
        ),
        sign(
            5,
            unless(fails_in_a_layer()),
            line(
                r"CrossEntropyLoss|cross_entropy|loss_fct|loss_fn|\blabels?\b|criterion|nll_loss|\bloss\b|\w_loss\b|log_?probs?\b|logps?\b|num_items_in_batch|aux_loss|ref_log|per_token_logps|logratios?|tr_loss"
            ),
        ),
        sign(
            3.6,
            unless(product_with("weight")),
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
