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

import re

from samedevice.diagnosis._failure import Failure, made_text, spelled
from samedevice.diagnosis._rule import (
    Hint,
    Rule,
    at,
    frameless,
    inside,
    line,
    said,
    sign,
)
from samedevice.diagnosis.paste import Report
from samedevice.events import Operand
from samedevice.messages import Phrase


def _state_on_gpu(report: Report) -> Phrase | None:
    """An indexed tensor on a GPU, and an index on another one."""
    if report.devices and report.devices[0].startswith(("cuda", "xpu", "npu")):
        return Phrase("because.devices", devices=report.devices[0])
    return None


def _detect(failure: Failure) -> Hint | None:
    if not failure.mismatch:
        return None
    held = [
        each
        for each in failure.event.operands
        if _kept(each) or re.search(r"self\.(?:rope_deltas|\w*cache)\b", failure.named_by(each))
    ]
    if held:
        index = next(
            (
                each
                for each in failure.event.operands
                if re.search(r"beam_idx|hypo_ids|beam_ind", spelled(each))
            ),
            None,
        )
        guilty = index if index is not None else failure.odd(*held)
        assert guilty is not None
        return Hint(
            7.5,
            Phrase(
                "rules.cache-or-beam-state-on-wrong-device.kept",
                operand=held[0].local or held[0].name,
                holder=held[0].holder or held[0].local or "?",
            ),
            guilty.name,
        )
    if re.search(r"_reorder_cache|beam", failure.where):
        odd = failure.odd(*failure.event.operands)
        return Hint(
            6, Phrase("because.in-code", where=failure.where.rpartition("/")[2]), odd.name if odd else None
        )
    if re.search(r"cache_utils\.py", failure.where):
        odd = failure.odd(*failure.event.operands)
        return Hint(
            6.5, Phrase("because.in-code", where=failure.where.rpartition("/")[2]), odd.name if odd else None
        )
    return None


def _kept(operand: Operand) -> bool:
    names = spelled(operand)
    if operand.holder and operand.holder != "cache_kwargs":
        return True
    kept = r"conv_state|ssm_state|recurrent_state|past_state|past_key|layer_past|key_cache|k_out|v_out|rope_delta|self\.\w*cache"
    return bool(re.search(kept, f"{names} {made_text(operand)}"))


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
        sign(5, line(r"\bbeam_idx\b|_reorder_cache|reorder_cache|beam_scores|beam_indices|next_beam")),
        sign(4.5, inside(r"beam_search|_reorder_cache|constrained_beam")),
        sign(
            3.5,
            said("same-device cat-device-old", op="cat", argument="tensors"),
            line(r"\b(?:step|past|cache|attn|attention|kv)\w*\b"),
        ),
        sign(2.2, said("same-device cat-device-old", op="cat", argument="tensors"), frameless()),
        sign(3.0, said("index-device"), _state_on_gpu),
        sign(0.95, said("same-device argument-device", devices="gpus"), frameless()),
    ),
    detect=_detect,
)
