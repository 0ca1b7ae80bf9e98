"""State kept between steps is on another device than the layer that uses it.

## What happens

A KV cache, a static or hybrid cache, a recurrent or convolution state, or a beam index stays on one device (the
model's first, or the host), while layers on other GPUs write to it, read from it or reorder it.

## Why it fails

One cache serves layers on several GPUs. If all its parts are made on `model.device`, only the layers there match; if
a beam index is used for each layer's part, it must go to each.

## Example

```python
states = torch.zeros(layers, batch, size, device=model.device)     # all on cuda:0
state = states[self.layer_idx] * self.conv1d.weight                # this layer is on cuda:1
```

## Use instead

```python
states = [torch.zeros(batch, size, device=device_of_layer[i]) for i in range(layers)]
past.index_select(0, beam_idx.to(past.device))
```

A server that hands a cache to a served block, and cannot be changed where it allocates:

```python
guard = sd.guard_cache(block)  # the cache goes to the block's device at every step; guard.remove() ends it
```

## Fix safety

Safe: where the state is does not change its values. `use_cache=False` avoids the bug at the price of speed.

## Known limits

A `cat` in attention whose frames are missing can also be a split block.

## References

- [Cache classes](https://huggingface.co/docs/transformers/kv_cache) of transformers
- [Petals](https://github.com/bigscience-workshop/petals)
"""

# ruff: noqa: E501 # sentences are whole lines, and Chinese has its own punctuation

from __future__ import annotations

import ast

from samedevice.diagnosis._failure import Failure
from samedevice.diagnosis._rule import Hint, Rule, anywhere, argument, at, frameless, inside, line, said, sign
from samedevice.diagnosis.paste import Report
from samedevice.events import Operand, on_accelerator
from samedevice.messages import Phrase
from samedevice.provenance.flow import filled_in_file
from samedevice.provenance.syntax import parsed, parts_of


def _state_on_gpu(report: Report) -> Phrase | None:
    """An indexed tensor on a GPU, and an index on another one."""
    if report.devices and report.devices[0].startswith(("cuda", "xpu", "npu")):
        return Phrase("because.devices", devices=report.devices[0])
    return None


def _detect(failure: Failure) -> Hint | None:
    if not failure.mismatch:
        return None
    return (
        _recurrent(failure)
        or _of_another_call(failure)
        or _filled(failure)
        or _reordered(failure)
        or _across_layers(failure)
        or _held(failure)
        or _written(failure)
        or _set_by_the_step(failure)
        or _carried(failure)
        or _of_before(failure)
        or _buffer_filled_elsewhere(failure)
        or _scores(failure)
        or _kept_result(failure)
        or _not_brought_back(failure)
        or _of_an_earlier_call(failure)
    )


def _kept(weight: float, failure: Failure, state: Operand, guilty: Operand) -> Hint:
    holder, written = state.holder or state.local or "?", failure.written(state)
    if holder == written:
        key = "rules.cache-or-beam-state-on-wrong-device.carried"
        return Hint(weight, Phrase(key, operand=written), guilty.name)
    key = "rules.cache-or-beam-state-on-wrong-device.kept"
    return Hint(weight, Phrase(key, operand=written, holder=holder), guilty.name)


def _recurrent(failure: Failure) -> Hint | None:
    """The state that a recurrent layer is given for its first step."""
    for state in failure.plain:
        apart = any(each.device != state.device for each in failure.event.operands)
        data = [each for each in failure.plain if each.name.partition("[")[0] != "hx"]
        with_data = bool(data) and all(each.device == state.device for each in data)
        if state.name.partition("[")[0] != "hx" or not apart or failure.made_here(state):
            continue
        if not (with_data and failure.weights):  # else all that the layer is given is away from it
            return _kept(8, failure, state, state)
    return None


def _filled(failure: Failure) -> Hint | None:
    """What an object keeps, and the failing function of a module with weights fills piece by piece."""
    if not failure.in_model:
        return None
    for state in failure.plain:
        apart = any(each.device != state.device for each in failure.event.operands)
        if apart and not failure.activation(state) and (held := failure.filled_here(state)) is not None:
            key = "rules.cache-or-beam-state-on-wrong-device.kept"
            return Hint(8.6, Phrase(key, operand=failure.written(state), holder=held), state.name)
    return None


def _of_another_call(failure: Failure) -> Hint | None:
    """What a function keeps by a key that says nothing of the device, and made for an earlier call."""
    for kept in failure.plain:
        if (given := failure.kept_from_before(kept)) is not None:
            key = "rules.cache-or-beam-state-on-wrong-device.of-another-call"
            return Hint(
                8, Phrase(key, operand=failure.written(kept), device=kept.device, given=given), kept.name
            )
    return None


def _reordered(failure: Failure) -> Hint | None:
    """State of earlier steps that is put in order by an index: one that a layer on another GPU chose, or one
    from what an object keeps since it was made.
    """
    if failure.op not in _PICKS:
        return None
    state, *others = failure.event.operands
    index = next((each for each in others if each.device != state.device), None)
    if index is None or state.role:
        return None
    if failure.two_gpus and _put_back(failure, state):
        return _kept(7.5, failure, state, index)
    if not failure.carried(index) or not failure.carried(state):
        return None
    made = failure.born(index)
    kept = made is not None and made.inherited and made.at is not None and made.at.function == "__init__"
    if not failure.two_gpus and not kept and not failure.activation(index):
        return None
    left = state.device == "cpu" and failure.born(state) is not None and failure.activation(index)
    return _kept(7.5, failure, state, state if left else index)


def _put_back(failure: Failure, state: Operand) -> bool:
    """Whether an object keeps a selection of what it keeps: the statement assigns what it reads."""
    match parsed(failure.code):
        case ast.Module(body=[ast.Assign(targets=[ast.Attribute() as target], value=value), *_]):
            own = ast.unparse(target)
            return own in parts_of(value) and failure.written(state) == own
    return False


_PICKS = ("index_select", "index", "gather", "take_along_dim", "index_copy_")


def _across_layers(failure: Failure) -> Hint | None:
    """What a hook added up from the layers of one GPU, and a layer on another one adds to."""
    if not failure.two_gpus or not failure.gathers_by_hook:
        return None
    for state in failure.plain_state:
        if state.role is None and failure.is_kept(state) and failure.activation(state):
            key = "rules.cache-or-beam-state-on-wrong-device.across-layers"
            values = {"operand": failure.written(state), "device": state.device}
            return Hint(7.7, Phrase(key, **values), state.name)
    return None


def _held(failure: Failure) -> Hint | None:
    """What an object keeps that writes into itself while the model runs, or that the model was given; a cut
    attention meets what it put there itself.
    """
    held = [
        each
        for each in failure.plain
        if each.holder and each.holder != "cache_kwargs" and not failure.statistic(each)
    ]
    if not held or failure.cut_here:
        return None
    if all(on_accelerator(each.device) for each in held) and any(map(failure.left_by_library, failure.plain)):
        return None  # what was made without a device beside it is in the wrong place
    index = [each for each in failure.plain if each not in held and each.name.startswith("ind")]
    picked = failure.op in _PICKS and failure.two_gpus and held[0] is failure.event.operands[0]
    guilty = index[0] if picked and index else failure.odd(*held)
    assert guilty is not None
    # While a model runs it is more than an argument from outside.
    return _kept(8.5 if failure.in_model else 7.5, failure, held[0], guilty)


def _written(failure: Failure) -> Hint | None:
    """What was made before the model ran, and is written into while it runs."""
    if not failure.in_model or failure.op not in _WRITES:
        return None
    state, *others = failure.event.operands
    apart = any(each.device != state.device and failure.activation(each) for each in others)
    before = failure.born(state) is not None and not failure.made_inside(state) and not failure.given(state)
    return _kept(7, failure, state, state) if apart and before and not state.role else None


def _buffer_filled_elsewhere(failure: Failure) -> Hint | None:
    """What comes from a buffer of another part of the model, which a method of that part fills piece by piece."""
    if not failure.in_model or failure.computes_loss:
        return None
    for state in failure.plain:
        newest = state.decision
        if newest is None or newest.kind != "placed" or not newest.name or newest.at is None:
            continue
        owner, _, name = newest.name.rpartition(".")
        others = [each for each in failure.plain if each.device != state.device]
        if owner and any(map(failure.activation, others)) and filled_in_file(failure.event.at, name):
            key = "rules.cache-or-beam-state-on-wrong-device.kept"
            return Hint(6.3, Phrase(key, operand=newest.name, holder=owner), state.name)
    return None


def _set_by_the_step(failure: Failure) -> Hint | None:
    """What comes from an attribute that the running function itself sets for the next call."""
    for state in failure.plain if failure.in_model else ():
        apart = any(each.device != state.device for each in failure.event.operands)
        text = failure.expression(state)
        if not apart or text is None or failure.follows(state):
            continue
        if failure.activation(state) and not failure.from_attribute(state):
            continue
        if failure.flow.only_adds_up():
            continue  # a statistic: nothing of this call is computed from it
        roots = [root for root in failure.flow.roots(text) if root.kind == "attribute"]
        if any(failure.flow.replaced_by_call(root) for root in roots):
            return _kept(8.6, failure, state, state)
        if {root.text for root in roots} & failure.flow.attributes_set():
            return _kept(6.6, failure, state, state)
    return None


def _of_before(failure: Failure) -> Hint | None:
    """What the model computed before it was moved, and somebody kept for its next call; where all of its
    weights are on the host, these left.
    """
    model = failure.event.running[-1] if failure.event.running else None
    gone = model is not None and set(model.below) == {"cpu"} and any(map(_sent_to_host, failure.weights))
    for state in failure.plain if failure.in_model and not gone else ():
        if failure.activation(state) and failure.of_before(state) and not failure.gradient(state):
            return _kept(7.2, failure, state, state)
    return None


def _sent_to_host(weight: Operand) -> bool:
    steps = weight.lineage
    return len(steps) > 1 and weight.device == "cpu" and on_accelerator(steps[1].device)


def _scores(failure: Failure) -> Hint | None:
    """Between two runs of a model: numbers that were made before the loop, are handed on from turn to turn, and
    meet what the model computed to choose the next tokens.
    """
    if failure.in_model or failure.feeds_backward or not failure.chooses_a_token:
        return None
    for state in failure.plain:
        computed = any(failure.activation(each) for each in failure.plain if each.device != state.device)
        made = failure.born(state) is not None and not failure.activation(state)
        if computed and made and state.dtype.startswith(("float", "bfloat")) and failure.carried(state):
            return _kept(6.6, failure, state, state)
    return None


def _kept_result(failure: Failure) -> Hint | None:
    """What layers computed and an object kept, where it meets what layers on another GPU compute now."""
    if not failure.two_gpus or failure.computes_loss:
        return None
    kept = [each for each in failure.plain if failure.kept_result(each)]
    now = [each for each in failure.plain if failure.activation(each) and each not in kept]
    apart = [each for each in kept if any(other.device != each.device for other in now)]
    return _kept(6.2, failure, apart[0], apart[0]) if apart and not failure.weights else None


def _of_an_earlier_call(failure: Failure) -> Hint | None:
    """What a package computed from what an earlier call had given it, and this call brings all from elsewhere."""
    for state in failure.plain:
        if failure.of_an_earlier_call(state):
            key = "rules.cache-or-beam-state-on-wrong-device.of-an-earlier-call"
            return Hint(6.2, Phrase(key, operand=failure.written(state), device=state.device), state.name)
    return None


def _not_brought_back(failure: Failure) -> Hint | None:
    """What layers computed at another time and an object kept, where the failing function sent other parts of
    what that object keeps to where they are needed.
    """
    for state in failure.plain:
        if not failure.activation(state) or not failure.from_attribute(state):
            continue
        others = [each for each in failure.plain if each.device != state.device]
        if others and all(_brought_from(failure, each, state) for each in others):
            return _kept(7, failure, state, state)
    return None


def _brought_from(failure: Failure, part: Operand, state: Operand) -> bool:
    """Whether the failing function moved a part of the object that keeps a state."""
    newest, at = part.decision, failure.event.at
    if newest is None or newest.kind != "moved" or newest.at is None:
        return False
    here = (newest.at.file, newest.at.function) == (at.file, at.function)
    return here and bool(_holders(failure, state) & _holders(failure, part))


def _holders(failure: Failure, operand: Operand) -> set[str]:
    """The objects whose attributes an operand comes from."""
    return {each.rpartition(".")[0] for each in failure.attributes(operand)}


_WRITES = ("index_put_", "copy_", "index_copy_", "scatter_", "slice_scatter")


def _carried(failure: Failure) -> Hint | None:
    """What was made before a loop, is handed on from turn to turn, and stands beside another input."""
    if not failure.in_model or failure.looks_up:
        return None
    elsewhere = {device for _, device in failure.event.arguments}
    for state in failure.plain:
        apart = any(each.device != state.device for each in failure.event.operands)
        given = state.argument is not None and elsewhere - {state.device} and not failure.at_home(state)
        made = failure.born(state) is not None and not failure.made_inside(state)
        sent_away = failure.activation(state) and state.lineage[0].kind == "moved" and failure.given(state)
        made = made or bool(sent_away)
        among_others = "[" in (state.from_argument or "")
        if apart and (given or among_others) and made and state.dtype.startswith(("float", "bfloat")):
            if failure.carried(state):
                sure = 8.1 if among_others else 7.6
                return _kept(sure if failure.handed_back(state) else 4.6, failure, state, state)
    return None


_CHINESE = """跨步保存的状态与使用它的层不在同一设备上。

## 发生了什么

KV 缓存、静态或混合缓存、循环或卷积状态、束搜索（beam）索引停留在某一个设备上（模型的第一个设备，或 CPU），
而其他 GPU 上的层要写它、读它或重排它。

## 为什么会失败

一份缓存服务于多块 GPU 上的层。如果它的各部分都创建在 `model.device` 上，就只有那块 GPU 上的层能用；如果
用 beam 索引去取每一层的缓存，索引也必须移到每一层的设备上。

## 示例

```python
states = torch.zeros(layers, batch, size, device=model.device)     # 全在 cuda:0
state = states[self.layer_idx] * self.conv1d.weight                # 这一层在 cuda:1
```

## 应当这样写

```python
states = [torch.zeros(batch, size, device=device_of_layer[i]) for i in range(layers)]
past.index_select(0, beam_idx.to(past.device))
```

如果缓存由服务端分配、而分配的代码改不了：

```python
guard = sd.guard_cache(block)  # 每一步都让缓存跟随 block 的设备；guard.remove() 取消
```

## 修复是否安全

安全：状态放在哪里不影响它的值。`use_cache=False` 也能绕开问题，代价是变慢。

## 已知局限

没有调用栈时，注意力里的 `cat` 也可能是模块被切开造成的。

## 参考

- transformers 的 [Cache classes](https://huggingface.co/docs/transformers/kv_cache)
- [Petals](https://github.com/bigscience-workshop/petals)
"""

_KEPT_STATE = r"\bself\.\w*(?:hidden|state|hx|h_?0)\w*"
"""A recurrent state that an object keeps."""

RULE = Rule(
    code="SD118",
    name="cache-or-beam-state-on-wrong-device",
    title={
        "en": "kept state (cache, beams) is on another device",
        "zh": "缓存或束搜索状态在别的设备上",
    },
    meaning={
        "en": "a KV cache, recurrent state or beam index is not where the layer that uses it is",
        "zh": "KV 缓存、循环状态或 beam 索引不在使用它的层所在的设备上",
    },
    cure={
        "en": "keep each layer's part of the cache on the device of that layer, and move the beam index "
        "to it; a served block is looked after by sd.guard_cache(block); use_cache=False shows "
        "whether it is the cache",
        "zh": "让每层的缓存位于该层所在的设备，并把 beam 索引移过去；服务端的块可用 sd.guard_cache(block) "
        "看护；用 use_cache=False 可以验证是否是缓存的问题",
    },
    sentences={
        "kept": {
            "en": "{operand} is kept between steps by {holder}",
            "zh": "{operand} 由 {holder} 在各步之间保存",
        },
        "across-layers": {
            "en": "{operand} was added up from layers on {device}; this layer is on another GPU",
            "zh": "{operand} 由 {device} 上的各层累加而来，而这一层在另一块 GPU 上",
        },
        "carried": {
            "en": "{operand} goes on from step to step",
            "zh": "{operand} 在各步之间传递",
        },
        "of-an-earlier-call": {
            "en": "{operand} was computed from what an earlier call was given, on {device}; this call was given all elsewhere",
            "zh": "{operand} 由之前一次调用的输入（在 {device} 上）算出；这次调用的输入都在别处",
        },
        "of-another-call": {
            "en": "{operand} was made for an earlier call, whose {given} was on {device}, and is found again by a key without the device",
            "zh": "{operand} 是为之前的一次调用创建的，那时 {given} 在 {device} 上；缓存的键里没有设备，于是又取到了它",
        },
    },
    page={"en": __doc__ or "", "zh": _CHINESE},
    common=0.35,
    signs=(
        sign(
            5.5,
            line(
                r"\b(?:past_key_values?|key_cache|value_cache|k_out|v_out|k_cache|v_cache|cache_position|layer_past|past_key|conv_states?|ssm_states?|recurrent_states?|kv_cache|cache_k|cache_v|rope_deltas|past_state|key_states)\b"
            ),
        ),
        sign(5, at(r"reorder_cache|update_cache|(?:static|hybrid)_cache")),
        sign(
            5.4,
            line(
                r"\bbeam_idx\b|_reorder_cache|reorder_cache|beam_scores|beam_indices|next_beam"
                r"|\b(?:running_|ended_)?hyp(?:s|othes[ei]s)?\b"
            ),
        ),
        sign(4.5, inside(r"beam_search|_reorder_cache|constrained_beam")),
        sign(
            3.5,
            said("same-device cat-device-old", op="cat", argument="tensors"),
            line(r"\b(?:step|past|cache|attn|attention|kv)\w*\b"),
        ),
        sign(
            2.4,
            said("same-device cat-device-old", op="cat", argument="tensors", devices="gpus"),
            line(r"\b(\w+) = torch\.cat\(\s?[\[(]\1\b"),
        ),
        sign(2.2, said("same-device cat-device-old", op="cat", argument="tensors"), frameless()),
        sign(3.0, said("index-device"), _state_on_gpu),
        sign(
            5,
            said("same-device argument-device", op="index_copy", devices="gpus"),
            anywhere(r"(?<![./\\])\bcache\b(?![./\\])|\bpast_|缓存"),
        ),
        sign(6, said("input-weight-type"), argument(r"^hidden$"), line(_KEPT_STATE)),
        sign(0.95, said("same-device argument-device", devices="gpus"), frameless()),
    ),
    detect=_detect,
)
