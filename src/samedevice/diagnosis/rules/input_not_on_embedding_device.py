"""Token ids, or other main inputs, are on another device than the weight that reads them first.

## What happens

`embed_tokens(input_ids)` looks rows up in a weight on one device with ids on another. The ids were never
moved from the host, or they were sent to a fixed GPU while the map put the embedding elsewhere.

## Why it fails

`index_select` needs weight and index on one device. Accelerate's hooks move inputs only for a model that is
spread: a model that landed on one device has no hooks, so ids on `cuda:0` stay there although the model is on
`cuda:7`.

## Example

```python
model = AutoModelForCausalLM.from_pretrained(name, device_map="auto")
inputs = tokenizer(text, return_tensors="pt").to("cuda:0")
model.generate(**inputs)
```

## Use instead

```python
inputs = tokenizer(text, return_tensors="pt").to(model.get_input_embeddings().weight.device)
model.generate(**inputs)
```

## Fix safety

Safe: only where the ids are changes, and they are small.

## Known limits

The lookup also fails when the *weight* is in the wrong place (a low-memory manager, an offload hook that did
not run, a model that was never moved). The ids are blamed when the script placed them.

## References

- `Module.get_input_embeddings` of transformers
- [Big model inference](https://huggingface.co/docs/accelerate/concept_guides/big_model_inference) of
  accelerate
"""

from __future__ import annotations

from samedevice.diagnosis._failure import Failure
from samedevice.diagnosis._rule import (
    Hint,
    Rule,
    after,
    anywhere,
    argument,
    called,
    frameless,
    input_beside_weight,
    line,
    named,
    product_with,
    said,
    shown,
    sign,
    unless,
)
from samedevice.events import Operand, on_accelerator
from samedevice.messages import Phrase


def _detect(failure: Failure) -> Hint | None:
    if not failure.mismatch:
        return None
    if not failure.looks_up:
        return _main_input(failure)
    weight = next((each for each in failure.weights if each.name == "weight"), None)
    ids = next((each for each in failure.event.operands if each.name == "indices"), None)
    if weight is None or ids is None or weight.device == ids.device or not on_accelerator(weight.device):
        return None
    if failure.made_for_this_call(ids):
        return None
    first, *_ = [*failure.event.arguments, ("", "")]
    main = failure.stayed_behind(ids) in (None, first[0])
    if not main and first[1] == weight.device and failure.flow.gave_a_layer(first[0]):
        return None  # the main ones are with the table
    if ids.lineage and not failure.made_inside(ids) and not _by_literal(ids):
        return Hint(
            7, Phrase("because.placed-by-user", operand=failure.written(ids), device=ids.device), ids.name
        )
    away = Phrase(
        "because.away-from-weight", operand=failure.written(ids), weight=weight.parameter or "weight"
    )
    return Hint(7 if not ids.lineage and failure.placed_by_user(ids) else 2.5, away, ids.name)


def _by_literal(ids: Operand) -> bool:
    """Whether a function that was given the ids put them elsewhere by itself."""
    newest = ids.decision
    return (
        newest is not None
        and newest.kind == "moved"
        and newest.at is not None
        and newest.at.function == "forward"
    )


def _main_input(failure: Failure) -> Hint | None:
    """What the model is called with, all of it, is away from the first weight that it meets."""
    weights = [each for each in failure.weights if each.role == "parameter" and on_accelerator(each.device)]
    if failure.event.device_map or not weights or len(failure.plain) != 1 or failure.op in ("cat", "stack"):
        return None
    given = failure.plain[0]
    if failure.handed_on(given):
        met = weights[0].parameter or weights[0].name
        return Hint(
            6, Phrase("because.away-from-weight", operand=failure.written(given), weight=met), given.name
        )
    newest = given.decision
    taken = newest is not None and newest.kind == "moved" and newest.device == "cpu"
    by_script = newest is not None and newest.at is not None and failure.by_user(newest.at)
    if failure.activation(given) and not (taken and by_script):
        return None  # what another layer computed is no input, unless the script took it to the host
    called = failure.event.at.function != "forward" and given.local is not None
    argument = given.from_argument is not None or (
        bool(failure.event.running) and called and not failure.event.arguments
    )
    if given.lineage and not failure.by_user(failure.event.at):
        argument = argument or failure.decided_by_user(given)
    if not given.lineage:
        argument = called and failure.placed_by_user(given)
    left = failure.made_inside(given) or _moved_inside(given) or failure.flow.sends_to_itself()
    first = failure.event.arguments[0][0] if failure.event.arguments else None
    main = given.from_argument in (None, first)
    behind = failure.stayed_behind(given) is not None and not main
    if weights[0].device == given.device or not argument or left or behind:
        return None
    near = Phrase(
        "because.away-from-weight",
        operand=failure.written(given),
        weight=weights[-1].parameter or "weight",
    )
    return Hint(7 if main else 4.8, near, given.name)


def _moved_inside(given: Operand) -> bool:
    """Whether a module sent it there itself."""
    newest = given.decision
    return newest is not None and newest.at is not None and newest.at.function == "forward"


_CHINESE = """token id 等主输入与最先读取它的权重不在同一设备上。

## 发生了什么

`embed_tokens(input_ids)` 用一个设备上的 id 去查另一个设备上的权重。id 要么从没离开 CPU，要么被送到了固
定的 GPU，而 `device_map` 把嵌入层放在了别处。

## 为什么会失败

`index_select` 要求权重和索引在同一设备上。accelerate 的 hook 只为分布在多个设备上的模型移动输入：整个落
在一块 GPU 上的模型没有 hook，于是 id 留在 `cuda:0`，模型却在 `cuda:7`。

## 示例

```python
model = AutoModelForCausalLM.from_pretrained(name, device_map="auto")
inputs = tokenizer(text, return_tensors="pt").to("cuda:0")
model.generate(**inputs)
```

## 应当这样写

```python
inputs = tokenizer(text, return_tensors="pt").to(model.get_input_embeddings().weight.device)
model.generate(**inputs)
```

## 修复是否安全

安全：只改变 id 所在的位置，而且 id 很小。

## 已知局限

*权重*放错了位置时，这一步查表同样会失败（低显存管理器、没有执行的 offload hook、从没移动过的模型）。只
有 id 的位置由脚本决定时，才判定是 id 的问题。

## 参考

- transformers 的 `Module.get_input_embeddings`
- accelerate 的
  [Big model inference](https://huggingface.co/docs/accelerate/concept_guides/big_model_inference)
"""

_LOOKUP = r"index_select|embedding"
_IDS = r"^(?:index|indices)$"
_PICKS = r"(?<!torch)\.index_select\("
"""A statement that picks rows of any tensor, not of an embedding."""

_ENCODED = (
    r"\b\w*tokeni[sz]er\w*\((?:(?!\.to\(|\.cuda\()[^\n]){0,200}return_tensors"
    r"(?:(?!\.to\(|\.cuda\()[^\n]){0,60}\)\s*(?:\n|$)"
)
"""What a tokenizer returns is taken as it is."""

RULE = Rule(
    code="SD111",
    name="input-not-on-embedding-device",
    title={
        "en": "inputs and embedding are on different devices",
        "zh": "输入与词嵌入层不在同一设备上",
    },
    meaning={
        "en": "the ids are not where the embedding weight is: they stayed on the host, or went to a fixed "
        "GPU",
        "zh": "input_ids 不在词嵌入权重所在的设备上：要么留在了 CPU，要么被送到了写死的 GPU",
    },
    cure={
        "en": "send the inputs to the device of the weight that reads them, not to a fixed one: "
        "next(model.parameters()).device, with a device map model.get_input_embeddings().weight.device",
        "zh": "把输入移到最先读取它们的权重所在的设备，不要写死：next(model.parameters()).device；"
        "用了 device_map 时是 model.get_input_embeddings().weight.device",
    },
    page={"en": __doc__ or "", "zh": _CHINESE},
    common=0.6,
    signs=(
        sign(
            5,
            said("same-device argument-device", op=_LOOKUP, argument=_IDS),
            named("host"),
            unless(line(_PICKS)),
        ),
        sign(
            5,
            said("same-device argument-device", op=_LOOKUP, argument=_IDS),
            named("another"),
            unless(line(_PICKS)),
        ),
        sign(3.0, said("backend-device")),
        sign(1.5, said("gpu-required")),
        sign(2.6, said("needs-gpu")),
        sign(
            3.4,
            said("type-combination"),
            line(r"\w*embed\w*\("),
            anywhere(r"index_select received an invalid"),
        ),
        sign(3.4, said("same-device argument-device"), shown(_ENCODED)),
        sign(
            3.0,
            said("same-device"),
            line(r"\b(?:index_select|embedding)\((?:self\.)?weight\b"),
            unless(argument(r"\w")),
        ),
        sign(6, said("input-weight-type"), input_beside_weight("host")),
        sign(4.2, said("same-device argument-device"), called(), product_with("input")),
        sign(3.0, said("same-device argument-device"), unless(called()), product_with("input")),
        sign(6, said("embedding-device-old")),
        sign(7, said("ids-warning")),
        sign(6, after("ids-warning"), said("same-device argument-device")),
        sign(
            4.5,
            line(
                r"\b(?:embed_tokens|wte|word_embeddings|tok_embeddings|get_input_embeddings|embed_in|shared|inputs_embeds\w*)\b.*\b(?:input_ids|ids|tokens|input_tok|inputs?)\b"
            ),
        ),
        sign(1.5, line(r"\b(?:wte|embed_tokens|word_embeddings|get_input_embeddings)\b")),
        sign(1.2, said("mps-placeholder")),
        sign(3.2, said("mps-placeholder"), line(r"\bembedding\(")),
        sign(0.3, said("same-device argument-device"), frameless()),
    ),
    detect=_detect,
)
