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

import re

from samedevice.diagnosis._failure import Failure, spelled
from samedevice.diagnosis._rule import Hint, Rule, anywhere, at, frameless, inside, line, said, sign
from samedevice.messages import Phrase


def _detect(failure: Failure) -> Hint | None:
    if not failure.mismatch:
        return None
    if (made := _made_for_generate(failure)) is not None:
        return made
    helper = re.search(r"/generation/|logits_process|stopping_criteria|candidate_generator", failure.where)
    if failure.ran_in(r"_assisted_decoding|candidate_generator|assisted_decoding"):
        ids = next(
            (each for each in failure.plain if re.search(r"ids|candidate|position|token", spelled(each))),
            None,
        )
        return Hint(
            8,
            Phrase("because.in-code", where="_assisted_decoding"),
            (ids or failure.odd(*failure.plain) or failure.event.operands[-1]).name,
        )
    for operand in failure.plain:
        place = operand.moved or operand.made
        if (
            place is not None
            and re.search(r"/generation/(?!utils\.py)|isin", f"{place.file}")
            and any(other.device != operand.device for other in failure.event.operands)
        ):
            if re.search(r"__init__", place.function):
                return Hint(
                    7,
                    Phrase(
                        "rules.generation-helper-on-wrong-device.made-in",
                        operand=operand.local or operand.name,
                        where=place.file.rpartition("/")[2],
                    ),
                    operand.name,
                )
    for operand in failure.plain:
        if (
            operand.made is not None
            and "/generation/" in operand.made.file
            and "/generation/" not in failure.where
            and not operand.parameter
        ):
            if re.search(r"cache_position", spelled(operand)) and any(
                other.device != operand.device for other in failure.event.operands
            ):
                return Hint(
                    6,
                    Phrase(
                        "rules.generation-helper-on-wrong-device.made-in",
                        operand=operand.local or operand.name,
                        where=operand.made.file.rpartition("/")[2],
                    ),
                    operand.name,
                )
    if helper:
        odd = failure.odd(*failure.event.operands)
        return Hint(
            4.5, Phrase("because.in-code", where=failure.where.rpartition("/")[2]), odd.name if odd else None
        )
    return None


def _made_for_generate(failure: Failure) -> Hint | None:
    """A helper that a factory made, met while `generate` runs and no `forward` does."""
    functions = [place.function for place in failure.event.stack]
    if "generate" not in functions or "forward" in functions[functions.index("generate") :]:
        return None
    for operand in failure.plain:
        newest = operand.lineage[0] if operand.lineage else None
        apart = any(each.device != operand.device for each in failure.event.operands)
        given = (operand.argument or "").isidentifier()  # by itself, not in an object that was given
        if newest is not None and newest.kind == "created" and apart and not given:
            phrase = Phrase(
                "rules.generation-helper-on-wrong-device.made-in",
                operand=failure.written(operand),
                where=newest.at.file.rpartition("/")[2] if newest.at is not None else "?",
            )
            return Hint(6.5, phrase, operand.name)
    return None


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
        sign(3.5, said("same-device argument-device", op="isin")),
        sign(2.0, anywhere(r"assistant_model|prompt_lookup|speculative|assisted")),
        sign(0.5, said("same-device argument-device", devices="gpus"), frameless()),
    ),
    detect=_detect,
)
