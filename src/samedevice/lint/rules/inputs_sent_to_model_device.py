"""Inputs go to `model.device` of a model that a device map has spread.

## What happens

The model was loaded with `device_map="auto"`, and its inputs are moved with `.to(model.device)`.

## Why it fails

`model.device` is the device of the first parameter that is found. That is where the embedding is for most
models, and not for those with tied or reordered weights, or with a part on the host or the disk.

## Example

```python
from transformers import AutoModelForCausalLM, AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen1.5-0.5B-Chat")
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen1.5-0.5B-Chat", device_map="auto")
inputs = tokenizer("Hello", return_tensors="pt").to(model.device)
```

## Use instead

```python
from transformers import AutoModelForCausalLM, AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen1.5-0.5B-Chat")
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen1.5-0.5B-Chat", device_map="auto")
inputs = tokenizer("Hello", return_tensors="pt").to(model.get_input_embeddings().weight.device)
```

## Fix safety

No fix is offered: `model.get_input_embeddings().weight.device` is right for text, and other inputs have
their own first layers.

## Known limits

It works for most models, which is why the rule is off by default.

## References

- [Big model inference](https://huggingface.co/docs/accelerate/usage_guides/big_modeling)
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from samedevice.lint._device_maps import loaded_with_map
from samedevice.lint._rule import Hit, LintRule
from samedevice.lint._source import LintedFile, short


def _check(file: LintedFile) -> Iterator[Hit]:
    for call in file.calls("to"):
        match call.node:
            case ast.Call(args=[ast.Attribute(value=ast.Name() as model, attr="device")]):
                if loaded_with_map(file, model, call):
                    yield Hit(call.node, {"call": short(call.node)}, confidence="guess")


_CHINESE = """模型已由 device_map 分布，输入却移动到 `model.device`。

## 发生了什么

模型用 `device_map="auto"` 加载，输入用 `.to(model.device)` 移动。

## 为什么会失败

`model.device` 是找到的第一个参数所在的设备。多数模型的嵌入层正好在那里；权重绑定、顺序不同，或有部分放
在内存、磁盘上的模型则不然。

## 示例

```python
from transformers import AutoModelForCausalLM, AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen1.5-0.5B-Chat")
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen1.5-0.5B-Chat", device_map="auto")
inputs = tokenizer("Hello", return_tensors="pt").to(model.device)
```

## 应当这样写

```python
from transformers import AutoModelForCausalLM, AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen1.5-0.5B-Chat")
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen1.5-0.5B-Chat", device_map="auto")
inputs = tokenizer("Hello", return_tensors="pt").to(model.get_input_embeddings().weight.device)
```

## 修复是否安全

不提供修复：对文本来说应当用 `model.get_input_embeddings().weight.device`，其他输入各有自己的第一层。

## 已知局限

对多数模型没有问题，所以这条规则默认关闭。

## 参考

- [大模型推理](https://huggingface.co/docs/accelerate/usage_guides/big_modeling)
"""

RULE = LintRule(
    code="SD212",
    name="inputs-sent-to-model-device",
    title={
        "en": "inputs go to model.device of a spread model",
        "zh": "输入移动到分布后模型的 model.device",
    },
    meaning={
        "en": "`model.device` of a spread model is the device of one of its parts",
        "zh": "分布之后，`model.device` 只是其中一部分所在的设备",
    },
    cure={
        "en": "send inputs to the device of the embedding",
        "zh": "把输入移动到嵌入层所在的设备",
    },
    sentences={
        "headline": {
            "en": "{call} sends inputs to one of several devices of a spread model",
            "zh": "{call} 把输入送到分布模型的某一个设备",
        },
    },
    page={"en": __doc__ or "", "zh": _CHINESE},
    check=_check,
    cause="input-not-on-embedding-device",
    words=("device_map",),
    default=False,
)
