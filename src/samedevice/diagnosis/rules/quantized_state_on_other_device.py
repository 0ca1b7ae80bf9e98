"""State of a quantised layer, or the calibration of a quantiser, mixes devices.

## What happens

Scales, zero points or lookup tables of a quantised layer are not with its weight; or a layer-by-layer
calibration moves a layer to the GPU and leaves its list arguments, masks or the rotary module on the host.

## Why it fails

Quantisers hold state in plain attributes that `.to()` does not move, and calibrate layers outside the model,
where no hook moves their arguments.

## Example

```python
for layer in layers:
    layer.cuda()
    layer(hidden.cuda(), attention_mask=mask, position_embeddings=embeddings)   # on the host
```

## Use instead

```python
import os
os.environ["CUDA_VISIBLE_DEVICES"] = "0"      # calibrate on one GPU, with a release that moves all arguments
```

## Fix safety

Safe: calibrating on one visible GPU changes no numbers.

## Known limits

Frames of a quantised linear layer also show for faults that have nothing to do with it.

## References

- Quantization guides of transformers
"""

from __future__ import annotations

from samedevice.diagnosis._failure import Failure
from samedevice.diagnosis._rule import Hint, Rule, anywhere, inside, line, said, sign
from samedevice.events import Operand, Place
from samedevice.messages import Phrase
from samedevice.provenance.syntax import methods_called


def _detect(failure: Failure) -> Hint | None:
    """A scale or a zero point beside what was computed from a weight of small integers, or a range from which
    they are made.
    """
    if not failure.mismatch:
        return None
    counts = failure.op in _RANGES or failure.gathers_by_hook
    for observed in failure.plain if counts else ():
        if failure.statistic(observed) and failure.flow.rounds(observed.local or ""):
            name = failure.written(observed)
            if failure.op in _RANGES:
                why = Phrase("rules.quantized-state-on-other-device.range", operand=name)
            else:
                why = Phrase("rules.quantized-state-on-other-device.counted", operand=name)
            return Hint(9, why, observed.name)
    for codes in failure.event.operands:
        if not _codes(failure, codes):
            continue
        for state in failure.event.operands:
            kept = not failure.activation(state) or failure.from_attribute(state)
            if state.device != codes.device and kept and state is not codes:
                beside = Phrase(
                    "rules.quantized-state-on-other-device.beside",
                    operand=failure.written(state),
                    codes=failure.written(codes),
                )
                return Hint(7.5, beside, state.name)
    return None


def _codes(failure: Failure, operand: Operand) -> bool:
    """Whether it is a weight of integers, or was computed from one, above or in the failing line."""
    if operand.role is not None and operand.dtype in _SMALL and len(operand.shape) > 1:
        return True
    read = [part.name for part in failure.event.read if part.role and part.dtype in _SMALL]
    placed = operand.decision.name if operand.decision else None
    own = operand.local is None and placed is not None
    if own and any(placed.rpartition(".")[2] == name.rpartition(".")[2] for name in read if placed):
        return True
    if placed is not None and operand.made is not None and _rounds(operand.made):
        return True
    text = failure.expression(operand) or ""
    parts = [*operand.ingredients, *(part for part in failure.event.read if part.name in text)]
    return any(
        part.dtype in _SMALL and (part.role or (part.made is not None and _rounds(part.made)))
        for part in parts
    )


def _rounds(place: Place) -> bool:
    """Whether a line makes integers of what it rounds."""
    called = methods_called(place.code)
    return "round" in called and not called.isdisjoint(("to", "type", "char", "byte"))


_RANGES = ("minimum", "maximum", "fmin", "fmax")
"""Operators that widen a range."""


_SMALL = frozenset(("int8", "uint8", "int4", "uint4", "float8_e4m3fn", "float8_e5m2", "int32"))
"""Types that quantised weights are kept in; int32 packs several."""


_CHINESE = """量化层的状态，或量化校准过程，混用了设备。

## 发生了什么

量化层的 scale、zero point、查找表与权重不在一起；或者逐层校准时把一层移到 GPU，而列表里的参数、掩
码、rotary 模块留在 CPU。

## 为什么会失败

量化器把状态放在普通属性里，`.to()` 不会移动；校准又是在模型之外逐层进行的，没有 hook 移动它们的参数。

## 示例

```python
for layer in layers:
    layer.cuda()
    layer(hidden.cuda(), attention_mask=mask, position_embeddings=embeddings)   # 这两个在 CPU 上
```

## 应当这样写

```python
import os
os.environ["CUDA_VISIBLE_DEVICES"] = "0"      # 在一块 GPU 上校准，并使用会移动全部参数的版本
```

## 修复是否安全

安全：只露出一块 GPU 来校准，不改变数值。

## 已知局限

与量化无关的错误，调用栈里也会出现量化线性层。

## 参考

- transformers 的量化指南
"""

_CHECKED_TOGETHER = r"need to be on the same GPU, but found some tensors to not be on a GPU"
"""What bitsandbytes says of a packed weight, its constants and its input, which it checks together."""

RULE = Rule(
    code="SD128",
    name="quantized-state-on-other-device",
    title={
        "en": "quantiser or quantised state mixes devices",
        "zh": "量化状态或校准过程混用了设备",
    },
    meaning={
        "en": "state of a quantised layer, or arguments of a calibration run, are on several devices",
        "zh": "量化层的状态或校准时的参数分布在多个设备上",
    },
    cure={
        "en": "calibrate with one visible GPU, and use a release that moves all arguments of a layer",
        "zh": "校准时只暴露一块 GPU，并使用会移动层的全部参数的版本",
    },
    sentences={
        "range": {
            "en": "{operand} is a range of observed values, from which a scale is made",
            "zh": "{operand} 是校准时观测到的取值范围，scale 由它算出",
        },
        "counted": {
            "en": "{operand} counts what a layer gets; values are rounded by it",
            "zh": "{operand} 统计某一层的输入，取整时要用到它",
        },
        "beside": {
            "en": "{operand} belongs to {codes}, which was made from a weight of small integers",
            "zh": "{operand} 与 {codes} 配套使用，而后者来自低比特整数权重",
        },
    },
    page={"en": __doc__ or "", "zh": _CHINESE},
    common=0.25,
    signs=(
        sign(5.5, inside(r"quant|calibrat")),
        sign(
            5,
            line(
                r"matmul_4bit|quant_state|dequantize\w*|qweight|qzeros|\bscales\b|\bg_idx\b|absmax|MatMul4Bit|matmul_8bit|SCB|CB\b|state\.\w*CB"
            ),
        ),
        sign(3.4, said("cublaslt")),
        sign(5, said("same-device"), anywhere(_CHECKED_TOGETHER)),
        sign(
            2.5,
            said("same-device argument-device"),
            anywhere(r"calibration|quantize_config|QuantizationConfig|\bquantiz\w+"),
        ),
        sign(1.3, anywhere(r"load_in_[48]bit|4-?bit|8-?bit")),
    ),
    detect=_detect,
)
