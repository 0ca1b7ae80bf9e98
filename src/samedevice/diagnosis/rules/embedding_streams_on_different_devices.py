"""Two streams that are joined early come out on different GPUs.

## What happens

Text embeddings are on one GPU, image, audio or video features on another, and a `cat`, `masked_scatter`, `where` or
masked assignment joins them. A mask made from the token ids is the same case: it is where the ids are, the embeddings
are where their weight is.

## Why it fails

The map spreads encoder, projector and language model over GPUs, and hooks move what enters a module. The join stands
in the parent's own code, between the modules, where no hook moves anything.

## Example

```python
inputs_embeds = self.embed_tokens(input_ids)            # cuda:1
image_embeds = self.visual(pixel_values)                 # cuda:0
inputs_embeds = inputs_embeds.masked_scatter(mask, image_embeds)
```

## Use instead

```python
image_embeds = image_embeds.to(inputs_embeds.device)
mask = mask.to(inputs_embeds.device)
inputs_embeds = inputs_embeds.masked_scatter(mask, image_embeds)
```

## Fix safety

Safe: a copy to another GPU keeps the numbers and passes gradients back. Placing encoder, projector and embedding on
one GPU by `device_map` changes no code.

## Known limits

Without the failing line, a pair of GPUs in a multimodal model can as well be a cut block.

## References

- [Big model inference](https://huggingface.co/docs/accelerate/concept_guides/big_model_inference) of accelerate
"""

# ruff: noqa: E501 # sentences are whole lines, and Chinese has its own punctuation

from __future__ import annotations

from samedevice.diagnosis._failure import Failure
from samedevice.diagnosis._rule import Hint, Rule, anywhere, at, frameless, inside, line, said, sign
from samedevice.events import Operand
from samedevice.messages import Phrase, Several


def _detect(failure: Failure) -> Hint | None:
    if not failure.mismatch or not failure.two_gpus:
        return None
    if (place := _of_an_input(failure)) is not None:
        return _streams(6.6, failure, place)
    if (place := _beside_layers(failure)) is not None:
        key = "rules.embedding-streams-on-different-devices.beside-layers"
        return Hint(6.6, Phrase(key, operand=failure.written(place), device=place.device), place.name)
    layers = [each for each in failure.plain if failure.activation(each) and not _counts(each)]
    for one in layers:
        for other in layers:
            if one.device == other.device or _summed(failure, one, other):
                continue
            if failure.of_cut(one) and failure.of_cut(other):
                continue  # parts of one block
            if _between_models(failure) and failure.of_one_model(one, other) is False:
                return Hint(6.5, _two_models(failure, one, other), other.name)
            if failure.related(one, other) is False:
                return _streams(6.5, failure, failure.odd(other, one) if failure.home else other)
    if (met := _of_two_models(failure, layers)) is not None:
        return Hint(5.2, _two_models(failure, *met), met[1].name)
    if failure.weights:
        return None
    apart = len({each.device for each in layers}) > 1
    numbers = failure.computes_loss or all(each.shape == () for each in layers)
    in_the_model = failure.dispatched and failure.cut is None and bool(failure.event.running)
    if apart and not numbers and in_the_model and not failure.op.startswith("add"):
        return _streams(6.2, failure, _earlier(failure, layers) or failure.odd(*layers))
    if failure.op in ("masked_scatter", "masked_scatter_"):
        joined = Phrase("rules.embedding-streams-on-different-devices.joined", op=failure.op)
        return Hint(7, joined, _late(failure))
    if failure.op in _PUTS and layers and any(_mask(failure, each, layers) for each in failure.plain):
        return _streams(6, failure, None)
    return None


_PUTS = ("where", "index", "index_put_", "scatter", "masked_fill", "masked_fill_", "copy_")
"""Operators that put one stream into the places of another."""


def _of_an_input(failure: Failure) -> Operand | None:
    """What tells places and was made from an input, where the hook of the model wants inputs, and meets what
    a first layer computed or what was sent there: no hook stands between the two.
    """
    for operand in failure.plain:
        others = [each for each in failure.event.operands if each.device != operand.device and not each.role]
        places = operand.dtype == "bool" or operand.dtype.startswith("int")
        if not others or not places or operand.device != failure.entry or not operand.lineage:
            continue
        made = operand.lineage[0].inherited and operand.lineage[0].kind == "created"
        if made and all(_before_the_blocks(each) for each in others):
            return operand
    return None


def _beside_layers(failure: Failure) -> Operand | None:
    """What was computed from an input, where the hook of a spread model wants inputs, and meets in the model's
    own code what its layers computed elsewhere, or what was made beside that.
    """
    operands = failure.event.operands
    at_entry = [each for each in operands if each.device == failure.entry]
    if not failure.dispatched or failure.cut is not None or failure.computes_loss or len(at_entry) != 1:
        return None
    (given,) = at_entry
    if all(each.shape == () for each in operands):
        return None  # numbers: losses
    others = [each for each in operands if each is not given]
    newest = given.decision
    if newest is None or failure.activation(given) or failure.from_attribute(given):
        return None
    if any(each.role for each in operands) or not any(
        failure.activation(each) or failure.follows(each) for each in others
    ):
        return None
    if newest.kind == "moved":  # whoever moved it: the hook wants it there
        sent = newest.source != "literal" or failure.by_user(newest.user_at or newest.at)
        return given if sent else None
    inherited = newest.kind == "created" and newest.inherited
    joined = not given.name.startswith("ind") and failure.by_user(newest.at)  # an input itself, and no index
    return given if inherited and (joined or newest.source in ("tensor", "argument")) else None


def _counts(operand: Operand) -> bool:
    """Whether it holds whole numbers: no layer computes them, and no stream does."""
    return operand.dtype.startswith(("int", "uint"))


def _before_the_blocks(operand: Operand) -> bool:
    newest = operand.decision
    if newest is None:
        return False
    return (newest.kind == "placed" and newest.inherited) or (newest.kind, newest.source) == (
        "moved",
        "tensor",
    )


def _summed(failure: Failure, one: Operand, other: Operand) -> bool:
    """Whether two parts of one module are added up, as several embeddings of the same tokens are."""
    names = [(each.lineage[0].name or "").rsplit(".", 2)[0] for each in (one, other)]
    leaves = all((each.lineage[0].name or "").count(".") >= 1 for each in (one, other))
    return (
        failure.op.startswith("add")
        and leaves
        and names[0] == names[1]
        and not failure.by_user(failure.event.at)
    )


def _streams(weight: float, failure: Failure, late: Operand | None) -> Hint:
    key = "rules.embedding-streams-on-different-devices.streams"
    names = Several(tuple(failure.written(each) for each in failure.event.operands))
    return Hint(weight, Phrase(key, word=names, op=failure.op), late.name if late else _late(failure))


def _earlier(failure: Failure, layers: list[Operand]) -> Operand | None:
    """The stream that is in what the other one was computed from, with more besides: the model has gone on with
    that one, and this one stayed where it was made.
    """
    roots = {each.name: failure.flow.roots(failure.expression(each) or "") for each in layers}
    for one in layers:
        others = [each for each in layers if each.device != one.device]
        if roots[one.name] and others and all(roots[one.name] < roots[each.name] for each in others):
            return one
    return None


def _of_two_models(failure: Failure, layers: list[Operand]) -> tuple[Operand, Operand] | None:
    """Results of two models that meet where neither runs, and no loss or gradient is computed."""
    ends = failure.computes_loss or failure.takes_gradients or failure.feeds_backward
    return None if failure.in_model or ends else failure.of_two_models(layers)


def _between_models(failure: Failure) -> bool:
    """Whether code of a library joins what it has from models, and neither trains nor chooses tokens."""
    ends = failure.computes_loss or failure.feeds_backward or failure.chooses_a_token
    return not failure.event.running and not failure.by_user(failure.event.at) and not ends


def _two_models(failure: Failure, one: Operand, other: Operand) -> Phrase:
    names = {"operand": failure.written(one), "other": failure.written(other)}
    devices = {"device": one.device, "elsewhere": other.device}
    return Phrase("rules.embedding-streams-on-different-devices.two-models", **names, **devices)


def _mask(failure: Failure, operand: Operand, layers: list[Operand]) -> bool:
    """Whether it tells places, was made from an argument, and is away from what a layer computed."""
    places = operand.dtype == "bool" or (operand.dtype.startswith("int") and failure.op != "index")
    apart = any(each.device != operand.device for each in layers)
    return places and apart and not failure.activation(operand) and failure.given(operand) is not None


def _late(failure: Failure) -> str | None:
    """The operand that should have come to the stream that it is put into, which stands first."""
    base = failure.event.operands[0]
    others = [each for each in failure.event.operands if each.device != base.device]
    return others[0].name if others else None


_CHINESE = """要合并的两路特征出现在不同的 GPU 上。

## 发生了什么

文本嵌入在一块 GPU 上，图像、音频或视频特征在另一块，由 `cat`、`masked_scatter`、`where` 或掩码赋值合并。
由 token id 得到的掩码也是这种情况：它跟 id 在一起，而嵌入跟嵌入权重在一起。

## 为什么会失败

`device_map` 把编码器、投影层和语言模型分到多块 GPU 上，hook 只移动进入模块的张量。合并写在父模块自己的
代码里，处在模块之间，没有 hook 去移动。

## 示例

```python
inputs_embeds = self.embed_tokens(input_ids)            # cuda:1
image_embeds = self.visual(pixel_values)                 # cuda:0
inputs_embeds = inputs_embeds.masked_scatter(mask, image_embeds)
```

## 应当这样写

```python
image_embeds = image_embeds.to(inputs_embeds.device)
mask = mask.to(inputs_embeds.device)
inputs_embeds = inputs_embeds.masked_scatter(mask, image_embeds)
```

## 修复是否安全

安全：复制到另一块 GPU 不改变数值，梯度也能传回。用 `device_map` 把编码器、投影层和嵌入放在同一块 GPU 上，
则连代码都不用改。

## 已知局限

看不到出错的那一行时，多模态模型里出现两块 GPU，也可能是某个模块被切开了。

## 参考

- accelerate 的
  [Big model inference](https://huggingface.co/docs/accelerate/concept_guides/big_model_inference)
"""

RULE = Rule(
    code="SD112",
    name="embedding-streams-on-different-devices",
    title={
        "en": "two streams meet on different GPUs",
        "zh": "两路特征在不同 GPU 上汇合",
    },
    meaning={
        "en": "text embeddings and image, audio or video features (or a mask made from the ids) are "
        "joined where no hook moves them",
        "zh": "文本嵌入与图像、音频或视频特征（或由 input_ids 得到的掩码）在模块之间直接合并，没有 hook 负"
        "责搬运",
    },
    cure={
        "en": "move features and masks to the device of the text embeddings before the join, or place "
        "encoder, projector and embedding on one GPU",
        "zh": "合并之前把特征和掩码移到文本嵌入所在的设备，或把视觉编码器、投影层与词嵌入放在同一块 GPU 上",
    },
    sentences={
        "beside-layers": {
            "en": "{operand} is on {device}, where the model takes its inputs, and meets what layers computed on "
            "another GPU; no hook stands between them",
            "zh": "{operand} 在模型接收输入的 {device} 上，与别的 GPU 上的层算出的结果相遇，中间没有 hook",
        },
        "joined": {"en": "{op} joins two streams", "zh": "{op} 把两路特征合并"},
        "two-models": {
            "en": "{operand} was computed by one model on {device} and {other} by another model on {elsewhere}, and "
            "no hook stands between them",
            "zh": "{operand} 由 {device} 上的一个模型算出，{other} 由 {elsewhere} 上的另一个模型算出，中间没有 hook",
        },
        "streams": {
            "en": "{op} joins streams ({word}) from two GPUs",
            "zh": "{op} 合并来自两块 GPU 的特征（{word}）",
        },
    },
    page={"en": __doc__ or "", "zh": _CHINESE},
    common=0.3,
    signs=(
        sign(6, said("same-device argument-device", op="masked_scatter")),
        sign(
            5,
            line(
                r"masked_scatter|merge_\w*(?:image|multimodal|input_ids_with)|image_features|inputs_merger|new_input_embeds|image_newline|multi_?modal|speech_token|vision_embeds?|image_embeds|audio_features|vit_embeds|vision_feature|\b(?:image|video|visual|audio)_\w*masks?\b"
            ),
        ),
        sign(
            5,
            said("same-device argument-device index-device mask-device cat-device-old"),
            at(
                r"prepare_inputs_labels_for_multimodal|_merge_input_ids_with|inputs_merger|get_placeholder_mask|get_\w{0,12}embedding|merge_input"
            ),
        ),
        sign(
            3.5,
            line(r"\b(?:embedder|inputs_embeds)\b"),
            inside(r"audio|video|vision|visual|image|multimodal", 5),
        ),
        sign(
            1.5,
            said("same-device cat-device-old", op="cat"),
            said("same-device cat-device-old", devices="gpus"),
            inside(r"vision|visual|image|audio|video|multimodal"),
        ),
        sign(
            1.2,
            said("same-device argument-device mask-device", devices="gpus"),
            inside(r"vision|visual|image|audio|video|multimodal"),
        ),
        sign(
            1.0,
            said("same-device argument-device", devices="gpus"),
            anywhere(r"\b(?:image|images|pixel_values|video|audio)\b"),
        ),
        sign(0.4, said("same-device argument-device", devices="gpus"), frameless()),
        sign(2.0, said("mask-device"), line(r"special_image_mask|image_mask|inputs_embeds")),
    ),
    detect=_detect,
)
