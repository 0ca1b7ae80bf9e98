"""The rotary position table is on another device than the positions, queries or keys.

## What happens

`cos`, `sin` or `inv_freq` stay where the table was made (often the host, or the GPU of the first layer) while
positions, queries and keys are elsewhere.

## Why it fails

Tables are cached in plain attributes or non-persistent buffers. Attributes do not follow `.to()`, a table that grows
at run time is made on the device of the first caller, and a table shared by all layers can be on one GPU only.

## Example

```python
self.original_inv_freq = inv_freq                       # a plain attribute: stays on the host
freqs = inv_freq_expanded @ position_ids_expanded
```

## Use instead

```python
self.register_buffer("inv_freq", inv_freq, persistent=False)
freqs = inv_freq_expanded.to(x.device) @ position_ids_expanded
```

## Fix safety

Safe: the table is rebuilt or moved, its values do not change. It is model code: update the modelling file or the
library.

## Known limits

A hand-written map that leaves out the model-level rotary module gives the same error; then complete the map
(device-map-incomplete-or-wrong).

## References

- `Module.register_buffer` of torch
"""

# ruff: noqa: E501 # sentences are whole lines, and Chinese has its own punctuation

from __future__ import annotations

from samedevice.diagnosis._failure import Failure
from samedevice.diagnosis._rule import Hint, Rule, at, frameless, indexed_on_host, inside, line, said, sign
from samedevice.events import Operand, Place
from samedevice.messages import Phrase
from samedevice.provenance.flow import calls_in_function, returns_both


def _detect(failure: Failure) -> Hint | None:
    if not failure.mismatch:
        return None
    kept_first = sorted(failure.event.operands, key=lambda each: not failure.from_attribute(each))
    for operand in kept_first:
        apart = any(each.device != operand.device for each in failure.event.operands)
        if apart and _rotates(failure, operand):
            phrase = Phrase("rules.rope-table-on-wrong-device.rotary", operand=failure.written(operand))
            return Hint(9.6, phrase, operand.name)
    return None


def _rotates(failure: Failure, operand: Operand) -> bool:
    """Whether it is a table of angles whose cosine and sine turn queries and keys.

    Two functions show it: one makes cosine and sine of the same angles and returns both, and in another one
    they multiply.
    """
    turned = operand.made is not None and _makes_both(operand.made)
    if turned and failure.op in _MULTIPLIES and operand.dtype.startswith(("float", "bfloat", "complex")):
        return True
    if failure.activation(operand):
        return False
    kept = bool(operand.role or operand.kept_by) or failure.made_inside(operand)
    kept = kept or failure.from_attribute(operand)
    kept = kept and operand.from_argument is None
    return kept and _makes_both(failure.event.at) and failure.op in (*_MULTIPLIES, *_PRODUCTS)


def _makes_both(place: Place) -> bool:
    """Whether a function returns cosine and sine apart, or complex numbers of the angles."""
    return returns_both(place, "cos", "sin") or "polar" in calls_in_function(place)


_MULTIPLIES = ("mul", "mul_", "index", "index_select", "select", "cat", "stack")
_PRODUCTS = ("bmm", "mm", "matmul", "outer", "einsum", "ger")


_CHINESE = """旋转位置编码表与位置、query 或 key 不在同一设备上。

## 发生了什么

`cos`、`sin` 或 `inv_freq` 留在创建时的位置（常常是 CPU，或第一层所在的 GPU），而位置、query、key 在别处。

## 为什么会失败

这些表缓存在普通属性或非持久 buffer 里。属性不随 `.to()` 移动；运行时扩大的表创建在第一个调用者的设备上；
所有层共用的表又只能在一块 GPU 上。

## 示例

```python
self.original_inv_freq = inv_freq                       # 普通属性：留在 CPU 上
freqs = inv_freq_expanded @ position_ids_expanded
```

## 应当这样写

```python
self.register_buffer("inv_freq", inv_freq, persistent=False)
freqs = inv_freq_expanded.to(x.device) @ position_ids_expanded
```

## 修复是否安全

安全：表只是重建或移动，值不变。这是模型代码：请更新模型文件或库。

## 已知局限

手写的 `device_map` 漏掉了模型级的 rotary 模块时，现象相同；那时应补全
`device_map`（device-map-incomplete-or-wrong）。

## 参考

- torch 的 `Module.register_buffer`
"""

RULE = Rule(
    code="SD117",
    name="rope-table-on-wrong-device",
    title={
        "en": "the rotary table is on another device",
        "zh": "旋转位置编码表在别的设备上",
    },
    meaning={
        "en": "cos, sin or inverse frequencies are not where positions, queries or keys are",
        "zh": "cos、sin 或 inv_freq 不在 position_ids 或 query/key 所在的设备上",
    },
    cure={
        "en": "update the modelling code, or keep the table as a buffer that moves with its layer; check "
        "that a hand-written map lists the rotary module",
        "zh": "更新模型代码，或把表注册为随层移动的 buffer；手写 device_map 时检查是否包含 rotary 模块",
    },
    sentences={
        "rotary": {"en": "{operand} is a rotary table", "zh": "{operand} 是旋转位置编码表"},
    },
    page={"en": __doc__ or "", "zh": _CHINESE},
    common=0.35,
    signs=(
        sign(
            5.5,
            line(
                r"\b(?:cos|sin)\b.*\bposition_ids\b|\binv_freq\w*|rotary_emb\b|apply_rotary\w*|rotate_half|\bfreqs_cis\b|\bfreqs?\b.*\b(?:cos|sin|t)\b|\brotary\w*"
            ),
        ),
        sign(5, at(r"rotary|_rope|rope_|freqs_cis")),
        sign(4, line(r"\bcos\b|\bsin\b|\bk_embed\b|\bq_embed\b")),
        sign(3.2, inside(r"rotary|freqs_cis")),
        sign(3.6, said("same-device argument-device", op="bmm", argument="mat2"), frameless()),
        sign(1.9, said("index-device"), indexed_on_host()),
        sign(0.2, said("same-device argument-device", devices="host"), frameless()),
    ),
    detect=_detect,
)
