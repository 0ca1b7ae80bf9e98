"""A helper of the generation loop holds a tensor on another device than ids or scores.

## What happens

A stopping criterion, logits processor, draft model's candidate, grammar or prompt helper compares its own
tensor with ids or scores of the loop: `isin`, `cat`, `==`.

## Why it fails

The helper's tensor is made once, on the device it was told or on the host. The scores come from the output
head, which a split may put on another GPU; a draft model may live on another GPU altogether.

## Example

```python
processor = SuppressTokensLogitsProcessor([1, 2], device="cuda:0")
processor(input_ids, scores)                             # scores on cuda:1
```

## Use instead

```python
processor = SuppressTokensLogitsProcessor([1, 2], device=scores.device)
```

## Fix safety

Safe: the helper's values stay the same.

## Known limits

Ids and head on two GPUs make the sampling step itself fail; that is lm-head-or-tied-weight-split.

## References

- [Generation utilities](https://huggingface.co/docs/transformers/internal/generation_utils) of transformers
"""

from __future__ import annotations

from samedevice.diagnosis._failure import Failure
from samedevice.diagnosis._rule import Hint, Rule, anywhere, at, frameless, inside, line, said, shown, sign
from samedevice.events import Decision, Operand
from samedevice.messages import Phrase


def _detect(failure: Failure) -> Hint | None:
    """A tensor that a helper made or keeps, met between two runs of the model of which one follows from the
    other.
    """
    if not failure.mismatch:
        return None
    if any(place.function == "forward" for place in failure.event.stack):
        return _made_for_steps(failure)
    if (drafted := _of_two_models(failure)) is not None:
        return _helper(6.2, failure, drafted)
    for operand in sorted(failure.plain, key=lambda each: _given_to_it(failure, each)):
        others = [each for each in failure.event.operands if each.device != operand.device]
        if not others or failure.activation(operand) or operand.role or operand.holder:
            continue
        if failure.follows(operand):
            continue
        if _in_generate(failure, operand) or _chosen_by(failure, others):
            return _helper(7.2, failure, operand)
        kept = failure.from_attribute(operand) and operand.kept_by is None and not failure.in_model
        if kept and failure.flow.rules_out() and not failure.feeds_backward:
            return _helper(6.6, failure, operand)
    part = _of_a_part(failure)
    return None if part is None else _helper(7.3, failure, part)


def _given_to_it(failure: Failure, operand: Operand) -> bool:
    """Whether the failing function was handed a tensor: a helper's own one is looked at first."""
    return failure.flow.is_argument(failure.written(operand).partition("[")[0].partition(".")[0])


def _of_two_models(failure: Failure) -> Operand | None:
    """What another model computed, where two of them choose the next tokens together."""
    if failure.feeds_backward or not failure.chooses_a_token:
        return None
    computed = [each for each in failure.plain if failure.activation(each)]
    first = computed[:1]
    return next(
        (
            each
            for each in computed
            for one in first
            if each.device != one.device and failure.of_one_model(one, each) is False
        ),
        None,
    )


def _of_a_part(failure: Failure) -> Operand | None:
    """What a layer computed that the code around a dispatched model calls by itself, beside what the model
    gave back, where tokens are chosen.
    """
    whole = any(map(failure.given_back_whole, failure.plain))
    if not whole or failure.feeds_backward or not failure.chooses_a_token:
        return None
    parts = [each for each in failure.plain if failure.activation(each)]
    return next((each for each in parts if not failure.given_back_whole(each)), None)


def _helper(weight: float, failure: Failure, operand: Operand) -> Hint:
    phrase = Phrase(
        "rules.generation-helper-on-wrong-device.made-in",
        operand=failure.written(operand),
        where=operand.made.function if operand.made is not None else failure.event.at.function,
    )
    return Hint(weight, phrase, operand.name)


def _made_for_steps(failure: Failure) -> Hint | None:
    """What `generate` made for the model's steps, or another model chose for it, met a part of the model."""
    loop = next((place for place in failure.event.stack if place.function == "generate"), None)
    for operand in failure.plain if loop is not None else ():
        apart = any(each.device != operand.device for each in failure.event.operands)
        newest = operand.decision
        if loop is None or not apart or newest is None or operand.made is None or operand.holder:
            continue
        ran = operand.made.function in {place.function for place in failure.event.stack}
        made = newest.inherited and operand.made.file == loop.file and not failure.activation(operand)
        other_model = (
            failure.activation(operand) and newest.kind == "placed" and _of_no_layer(failure, newest)
        )
        if (made and not ran) or (other_model and failure.looks_up):
            return _helper(7.4, failure, operand)
    return None


def _of_no_layer(failure: Failure, decision: Decision) -> bool:
    """Whether the weight whose decision it is belongs to no layer of the running model: none is there."""
    if decision.name is None:
        return True
    running = failure.event.running
    return bool(running) and all(decision.device not in (*each.own, *each.below) for each in running)


def _in_generate(failure: Failure, operand: Operand) -> bool:
    """Whether `generate` of the model runs, or another one that chooses tokens, and the operand was not
    handed to it by itself.
    """
    given = (operand.argument or "").isidentifier() and operand.from_argument is not None
    runs = any(place.function == "generate" for place in failure.event.stack)
    return runs and not given and (bool(failure.event.running) or failure.flow.chooses_within("generate"))


def _chosen_by(failure: Failure, others: list[Operand]) -> bool:
    """Whether a token is chosen of what the statement computes from the last step."""
    scores = [each for each in others if failure.activation(each) and failure.carried(each)]
    tokens = any(each.dtype.startswith("int") for each in scores)
    if any(failure.carried(each) for each in failure.plain if each not in others):
        return False  # what the loop itself hands on, which no helper made
    return bool(scores) and not failure.feeds_backward and (tokens or failure.chooses_a_token)


_CHINESE = """生成循环里的辅助张量与 id 或 scores 不在同一设备上。

## 发生了什么

停止条件、logits 处理器、草稿模型的候选、语法约束或 prompt 工具，用自己持有的张量去和循环中的 id 或
scores 运算：`isin`、`cat`、`==`。

## 为什么会失败

这个张量只创建一次，创建在指定的设备或 CPU 上。scores 来自输出头，切分模型时输出头可能在另一块 GPU 上；
草稿模型更可能整个在别的 GPU 上。

## 示例

```python
processor = SuppressTokensLogitsProcessor([1, 2], device="cuda:0")
processor(input_ids, scores)                             # scores 在 cuda:1
```

## 应当这样写

```python
processor = SuppressTokensLogitsProcessor([1, 2], device=scores.device)
```

## 修复是否安全

安全：张量的值不变。

## 已知局限

如果 id 和输出头在两块 GPU 上，出错的就是采样这一步本身，那属于 lm-head-or-tied-weight-split。

## 参考

- transformers 的
  [Generation utilities](https://huggingface.co/docs/transformers/internal/generation_utils)
"""

RULE = Rule(
    code="SD119",
    name="generation-helper-on-wrong-device",
    title={
        "en": "a generation helper is on another device",
        "zh": "生成过程的辅助张量在别的设备上",
    },
    meaning={
        "en": "a stopping criterion, logits processor, draft candidate or grammar helper keeps a tensor away "
        "from "
        "ids or scores",
        "zh": "停止条件、logits 处理器、草稿模型候选或语法约束所持有的张量与 input_ids 或 scores 不在同一"
        "设备",
    },
    cure={
        "en": "move the helper's tensor to the ids or scores at each call; with assisted decoding put both "
        "models "
        "on one device",
        "zh": "每次调用时把该张量移到 input_ids 或 scores 的设备；辅助解码时把两个模型放在同一设备",
    },
    sentences={
        "made-in": {"en": "{operand} was made in {where}", "zh": "{operand} 创建于 {where}"},
    },
    page={"en": __doc__ or "", "zh": _CHINESE},
    common=0.25,
    signs=(
        sign(
            5,
            line(
                r"\bisin\b|isin_mps_friendly|\beos_token_id\w*|stop_ids|stopping_criteria|logits_processor|candidate_\w+|suppress_tokens|bad_words|stop_token|is_done|StoppingCriteria"
            ),
        ),
        sign(
            5,
            at(r"stopping|logits_process|candidate|assisted_decoding|speculative|isin|guided|grammar"),
        ),
        sign(4, inside(r"stopping|logits_process|candidate|assisted_decoding|isin_mps")),
        sign(
            4.4,
            shown(r"\b(?:stopping_criteria|logits_processor|logits_warper)\("),
            at(r"^__call__$"),
        ),
        sign(3.5, said("same-device argument-device", op="isin")),
        sign(2.0, anywhere(r"assistant_model|prompt_lookup|speculative|assisted")),
        sign(0.5, said("same-device argument-device", devices="gpus"), frameless()),
    ),
    detect=_detect,
)
