"""A model that was placed by a device map is moved as a whole.

## What happens

`from_pretrained(..., device_map="auto")` spread the model over the GPUs, or off them, and hooked its parts.
Then `.to(device)` or `.cuda()` follows.

## Why it fails

Accelerate refuses it for parts that were put on the host or on the disk. Else everything goes to one GPU,
whose memory may not hold it, while the hooks still send inputs to where the parts were.

## Example

```python
from transformers import AutoModelForCausalLM

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-8B", device_map="auto")
model.to("cuda")
```

## Use instead

```python
from transformers import AutoModelForCausalLM

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-8B", device_map="auto")
model.eval()
```

## Fix safety

Safe: the line, or the call, goes. The map has placed the model.

## Known limits

Only maps that accelerate draws (`auto`, `balanced`, `balanced_low_0`, `sequential`) count, and a move in
the same function. A move only to another type of numbers is none.

## References

- [Big model inference](https://huggingface.co/docs/accelerate/usage_guides/big_modeling)
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import partial

from samedevice.diagnosis.fixes import reduced
from samedevice.lint._device_maps import loaded_with_map
from samedevice.lint._rule import Hit, LintRule, Repair
from samedevice.lint._source import Call, LintedFile, short
from samedevice.static.tensors import Device, Library, Plain


def _check(file: LintedFile) -> Iterator[Hit]:
    for call in file.calls("to", "cuda"):
        if not isinstance(call.node.func, ast.Attribute) or not _to_a_device(file, call):
            continue
        if loaded_with_map(file, call.node.func.value, call):
            yield Hit(
                call.node,
                {"call": short(call.node)},
                repair=partial(_repair, file, call),
            )


def _to_a_device(file: LintedFile, call: Call) -> bool:
    if call.name == "cuda":
        return True
    given = call.keyword("device") or (call.node.args[0] if call.node.args else None)
    if given is None:
        return False
    value = file.told(call.around).values.get(id(given))
    if isinstance(value, Plain):
        return isinstance(value.value, str | int) and value.known
    return isinstance(value, Device) or (
        not isinstance(value, Library) and "device" in ast.unparse(given).lower()
    )


def _repair(file: LintedFile, call: Call) -> Repair:
    assert isinstance(call.node.func, ast.Attribute)
    return Repair(RULE.phrase("fix"), reduced(file.script, call.node, call.node.func.value))


_CHINESE = """按 device_map 放好的模型又被整体移动。

## 发生了什么

`from_pretrained(..., device_map="auto")` 已经把模型分布到各块 GPU 上，并给各部分挂上了钩子；随后又写了
`.to(device)` 或 `.cuda()`。

## 为什么会失败

有部分放在内存或磁盘上时，accelerate 会拒绝移动。否则全部权重挤到一块 GPU 上，未必放得下，而钩子仍把输入
送往原来的位置。

## 示例

```python
from transformers import AutoModelForCausalLM

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-8B", device_map="auto")
model.to("cuda")
```

## 应当这样写

```python
from transformers import AutoModelForCausalLM

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-8B", device_map="auto")
model.eval()
```

## 修复是否安全

安全：去掉这一行或这个调用，模型已经由 device_map 放好。

## 已知局限

只看由 accelerate 决定的分布（`auto`、`balanced`、`balanced_low_0`、`sequential`），以及同一个函数里的移
动。只改变数值类型的 `.to()` 不算。

## 参考

- [大模型推理](https://huggingface.co/docs/accelerate/usage_guides/big_modeling)
"""

RULE = LintRule(
    code="SD203",
    name="moved-after-device-map",
    title={
        "en": "a model with a device map is moved as a whole",
        "zh": "按 device_map 放好的模型又被整体移动",
    },
    meaning={
        "en": "accelerate's hooks expect the parts where the map put them",
        "zh": "accelerate 的钩子认为各部分仍在 device_map 放的位置",
    },
    cure={
        "en": "leave the move out, or the device_map",
        "zh": "去掉这次移动，或者去掉 device_map",
    },
    sentences={
        "headline": {
            "en": "{call} moves a model that device_map has placed",
            "zh": "{call} 移动了已由 device_map 放好的模型",
        },
        "fix": {
            "en": "leave the move out",
            "zh": "去掉这次移动",
        },
    },
    page={"en": __doc__ or "", "zh": _CHINESE},
    check=_check,
    cause="dispatched-model-moved",
    words=("device_map",),
)
