"""Last block, final norm, output head or a tied weight are placed apart.

## What happens

The output head is tied to the embedding (one weight, two names), or norm and head are on another GPU than the
last block; logits then come out on another device than the ids that the sampling step combines them with.

## Why it fails

A tied weight can be on one device only. A map that counts it as one large thing may drag the whole model to
the last GPU, or leave embedding and head on two GPUs, in which case the tie is broken.

## Example

```python
# lm_head and embed_tokens are one weight
device_map = {"model.embed_tokens": 0, "model.layers": 0, "model.norm": 1, "lm_head": 1}
```

## Use instead

```python
device_map = {"model.embed_tokens": 0, "model.layers": 0, "model.norm": 0, "lm_head": 0}
# a model that fits on one GPU: device_map={"": "cuda:0"}
```

## Fix safety

Safe: only the placement changes. The GPU of the embedding needs room for the head.

## Known limits

An embedding lookup that fails in a tied model has two readings: the inputs are elsewhere, or the weight was
dragged away.

## References

- `find_tied_parameters` of accelerate
"""

from __future__ import annotations

from samedevice.diagnosis._failure import Failure
from samedevice.diagnosis._rule import Hint, Rule, at, framed, frameless, line, said, sign
from samedevice.events import Operand
from samedevice.messages import Phrase
from samedevice.provenance.named_devices import device_source


def _detect(failure: Failure) -> Hint | None:
    if not failure.mismatch:
        return None
    return (
        _of_another_module(failure) or _tied(failure) or _next_tokens(failure) or _behind_the_blocks(failure)
    )


def _tied(failure: Failure) -> Hint | None:
    """A weight of two modules, met by one of them on the device of the other."""
    tied = next((each for each in failure.weights if each.tied and each.role == "parameter"), None)
    if not failure.op.startswith(("embedding", *_USES)):
        return None
    if tied is None or not failure.two_gpus or all(each.device == tied.device for each in failure.plain):
        return None
    shared = Phrase(
        "rules.lm-head-or-tied-weight-split.tied",
        operand=tied.parameter or tied.name,
        names=", ".join(tied.tied),
    )
    placed = {step.device for step in tied.lineage if step.kind == "placed" and step.device != "cpu"}
    return Hint(8.5 if len(placed) > 1 or _whole_by_computed_map(tied) else 4.5, shared, tied.name)


def _whole_by_computed_map(weight: Operand) -> bool:
    """Whether a map that the library computed (`device_map="auto"`) put the whole model on one GPU.

    The user chose no GPU then. A tied weight makes one block of the first and the last layer, and the map is
    computed for blocks.
    """
    newest = weight.decision
    if newest is None or newest.kind != "placed" or newest.entry != "" or newest.user_at is None:
        return False
    told = device_source(newest.user_at)
    return told is not None and told[0] == "literal" and (told[1] or "").strip("\"'") in _COMPUTED


_COMPUTED = ("auto", "balanced", "balanced_low_0", "sequential")
"""What `device_map` may be for a map that accelerate computes."""


def _next_tokens(failure: Failure) -> Hint | None:
    """In the sampling loop the tokens that the last layer chose meet the ids of the first one."""
    if not failure.two_gpus or any(place.function == "forward" for place in failure.event.stack):
        return None
    whole = [each for each in failure.plain if each.dtype.startswith("int") and failure.carried(each)]
    if (put := _put_beside_the_ids(failure)) is not None:
        return put
    chosen = next((each for each in whole if failure.activation(each)), None)
    ids = next((each for each in whole if not failure.activation(each)), None)
    if chosen is None or ids is None or chosen.device == ids.device or failure.op not in _JOINS:
        return None
    apart = Phrase("rules.lm-head-or-tied-weight-split.logits-apart", device=chosen.device)
    return Hint(7.4, apart, chosen.name)


def _put_beside_the_ids(failure: Failure) -> Hint | None:
    """Whole numbers that a layer computed from what an object keeps are put back there, where another layer
    of the same model is: that one takes its ids there.
    """
    if failure.op not in _JOINS or failure.in_model or failure.feeds_backward:
        return None
    chosen = [each for each in failure.plain if each.dtype.startswith("int") and failure.activation(each)]
    for ids in failure.plain:
        if not ids.dtype.startswith("int") or ids in chosen:
            continue
        for each in chosen:
            if each.device != ids.device and failure.beside_its_model(ids, each) and failure.fed(ids, each):
                apart = Phrase("rules.lm-head-or-tied-weight-split.logits-apart", device=each.device)
                return Hint(7.6, apart, each.name)
    return None


def _behind_the_blocks(failure: Failure) -> Hint | None:
    """What a numbered block computed meets the weights of a layer that stands behind the blocks."""
    here = failure.event.running[0] if failure.event.running else None
    if here is None or not failure.two_gpus or not here.own or failure.event.device_map or failure.looks_up:
        return None
    for computed in failure.plain:
        made_by = (computed.lineage[0].name or "") if failure.activation(computed) else ""
        numbered = any(part.isdecimal() for part in made_by.split("."))
        behind = "." in here.name and not any(part.isdecimal() for part in here.name.split("."))
        if numbered and behind and all(each.device != computed.device for each in failure.weights):
            apart = Phrase("rules.lm-head-or-tied-weight-split.logits-apart", device=computed.device)
            return Hint(6.6, apart, failure.weights[0].name if failure.weights else None)
    return None


_USES = ("mm", "addmm", "linear", "matmul", "bmm")
_JOINS = ("cat", "stack", "where", "mul", "add", "index_put_", "copy_")


def _of_another_module(failure: Failure) -> Hint | None:
    """A product with the weight of a module that does not run itself, and that was placed elsewhere."""
    running = {each.name for each in failure.event.running}
    if failure.op not in _USES:
        return None
    if failure.dispatched:
        return _read_again(failure)
    for weight in failure.plain if failure.two_gpus and failure.in_model else ():
        newest = weight.decision
        foreign = newest is not None and newest.kind == "placed" and newest.name is None
        apart = all(each.device != weight.device for each in failure.event.operands if each is not weight)
        if foreign and apart and not failure.activation(weight):
            phrase = Phrase("rules.lm-head-or-tied-weight-split.shared", operand=failure.written(weight))
            return Hint(7.2, phrase, weight.name)
    for weight in failure.weights:
        owner = (weight.parameter or "").rpartition(".")[0]
        apart = bool(failure.plain) and all(each.device != weight.device for each in failure.plain)
        placed = weight.decision is not None and weight.decision.kind == "placed"
        foreign = bool(owner) and owner not in running and not failure.only_read(weight)
        if foreign and apart and placed and failure.two_gpus and running:
            phrase = Phrase("rules.lm-head-or-tied-weight-split.shared", operand=weight.parameter or "")
            return Hint(7.2, phrase, weight.name)
    return None


def _read_again(failure: Failure) -> Hint | None:
    """A product with the weight of a layer that a dispatched model also calls, and that is where the map has
    it: for the call a hook brings the input, for the product none does.
    """
    for weight in failure.weights if failure.two_gpus else ():
        owner = (weight.parameter or "").rpartition(".")[0]
        in_place = failure.mapped(weight.parameter or "") == weight.device
        met = [each for each in failure.plain if failure.activation(each) and each.device != weight.device]
        called = failure.event.running and owner not in {each.name for each in failure.event.running}
        if owner and in_place and met and called and failure.called_too(owner):
            phrase = Phrase("rules.lm-head-or-tied-weight-split.shared", operand=weight.parameter or "")
            return Hint(7.2, phrase, weight.name)
    return None


_CHINESE = """最后一层、最终 norm、输出头或共享权重被分开放置。

## 发生了什么

输出头与嵌入共享权重（一份权重，两个名字），或者 norm、输出头与最后一层在不同的 GPU 上；于是 logits 与采
样时要用到的 id 不在同一设备。

## 为什么会失败

共享的权重只能在一个设备上。`device_map` 把它当成一大块来计算时，可能把整个模型拖到最后一块 GPU；也可能
把嵌入和输出头留在两块 GPU 上，共享关系就断了。

## 示例

```python
# lm_head 和 embed_tokens 是同一份权重
device_map = {"model.embed_tokens": 0, "model.layers": 0, "model.norm": 1, "lm_head": 1}
```

## 应当这样写

```python
device_map = {"model.embed_tokens": 0, "model.layers": 0, "model.norm": 0, "lm_head": 0}
# 一块 GPU 放得下时：device_map={"": "cuda:0"}
```

## 修复是否安全

安全：只改变放置。嵌入所在的 GPU 要有放输出头的空间。

## 已知局限

共享权重的模型查嵌入时失败，有两种读法：输入在别处，或者权重被拖走了。

## 参考

- accelerate 的 `find_tied_parameters`
"""

RULE = Rule(
    code="SD121",
    name="lm-head-or-tied-weight-split",
    title={
        "en": "head, norm or a tied weight is placed apart",
        "zh": "输出头、末层 norm 或共享权重被分开放置",
    },
    meaning={
        "en": "the output head, the final norm or a weight that is tied to the embedding is on another "
        "device than what it works with",
        "zh": "输出头、最后的 norm 或与词嵌入共享的权重，与其配合的部分不在同一设备",
    },
    cure={
        "en": "keep last block, norm and head together, with the head on the GPU of the embedding when they "
        "are "
        "tied",
        "zh": "最后一层、norm 与输出头放在一起；若与词嵌入共享权重，输出头要在词嵌入所在的 GPU 上",
    },
    sentences={
        "tied": {
            "en": "{operand} is the same memory as {names}",
            "zh": "{operand} 与 {names} 共享同一块内存",
        },
        "shared": {
            "en": "{operand} belongs to a module that does not run here: its weight is used a second time",
            "zh": "{operand} 属于此处没有运行的模块：它的权重被第二次使用",
        },
        "logits-apart": {"en": "the logits are on {device}", "zh": "logits 在 {device} 上"},
    },
    page={"en": __doc__ or "", "zh": _CHINESE},
    common=0.3,
    signs=(
        sign(5.5, line(r"next_tokens?\b.*unfinished|unfinished_sequences|pad_token_id \* \(1 - unfinished")),
        sign(
            5,
            line(
                r"\b(?:lm_head|embed_out|output_layer|ln_f|final_layernorm|final_layer_norm|norm_f|model\.norm|out_proj_head)\b"
            ),
        ),
        sign(
            5.2,
            said("same-device argument-device", op=r"mm$|linear|einsum", devices="gpus"),
            line(r"(?:einsum|linear|matmul)\([^\n]*\w*embed\w*(?:\.\w+)?\.weight"),
        ),
        sign(
            3.6,
            said("same-device argument-device", op="layer_norm|rms_norm", argument="weight", devices="gpus"),
        ),
        sign(
            1.5,
            at(r"^_?(?:sample|greedy_search|beam_search|contrastive_search)$"),
            said("same-device argument-device", devices="gpus"),
            framed(),
        ),
        sign(0.3, said("same-device argument-device", devices="gpus"), frameless()),
    ),
    detect=_detect,
)
