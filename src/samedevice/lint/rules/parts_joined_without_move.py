"""A model joins what two of its parts give without bringing them together.

## What happens

A model that may be spread over devices adds, joins or multiplies the output of one part with that of
another, or with a parameter of its own.

## Why it fails

A device map may put the two on different GPUs: embeddings that a tied output layer pulls to the last GPU, a
vision tower beside a language model. Accelerate's hooks move what goes into a module, not what meets
between modules.

## Example

```python
import torch
from torch import nn
from transformers import PreTrainedModel


class Block(nn.Module):
    def forward(self, x):
        return x


class Joined(PreTrainedModel):
    _no_split_modules = ["Block"]

    def __init__(self, config):
        super().__init__(config)
        self.words = nn.Embedding(100, 16)
        self.steps = nn.Embedding(100, 16)
        self.block = Block()

    def forward(self, input_ids: torch.Tensor, position_ids: torch.Tensor):
        return self.block(self.words(input_ids) + self.steps(position_ids))
```

## Use instead

```python
import torch
from torch import nn
from transformers import PreTrainedModel


class Block(nn.Module):
    def forward(self, x):
        return x


class Joined(PreTrainedModel):
    _no_split_modules = ["Block"]

    def __init__(self, config):
        super().__init__(config)
        self.words = nn.Embedding(100, 16)
        self.steps = nn.Embedding(100, 16)
        self.block = Block()

    def forward(self, input_ids: torch.Tensor, position_ids: torch.Tensor):
        words = self.words(input_ids)
        return self.block(words + self.steps(position_ids).to(words.device))
```

## Fix safety

No fix is offered: which of the two devices the rest expects is for a person to say; as a rule it is that of
the embeddings.

## Known limits

Only classes of models of transformers and diffusers, and only what stands outside the blocks that
`_no_split_modules` keeps together. What comes in from the caller counts as a part. A map may never cut there:
the rule is off by default.

## References

- [Big model inference](https://huggingface.co/docs/accelerate/usage_guides/big_modeling)
"""

from __future__ import annotations

from collections.abc import Iterator

from samedevice.lint._parts import parts_that_meet
from samedevice.lint._rule import Hit, LintRule
from samedevice.lint._source import LintedFile, short


def _check(file: LintedFile) -> Iterator[Hit]:
    if file.is_test:
        return
    for apart in parts_that_meet(file):
        values = {"one": short(apart.one[0], 40), "other": short(apart.other[0], 40)}
        yield Hit(apart.meeting.node, values, confidence="guess")


_CHINESE = """模型把两个部分的输出合在一起，却没有先放到同一个设备上。

## 发生了什么

可以分布到多个设备的模型，把一个部分的输出与另一个部分的输出，或与自己的参数相加、拼接、相乘。

## 为什么会失败

device_map 可能把两者放到不同的 GPU 上：与输出层绑定的嵌入会被拉到最后一块 GPU，视觉塔与语言模型各在一处。
accelerate 的钩子移动进入模块的张量，不管模块之间相遇的张量。

## 示例

```python
import torch
from torch import nn
from transformers import PreTrainedModel


class Block(nn.Module):
    def forward(self, x):
        return x


class Joined(PreTrainedModel):
    _no_split_modules = ["Block"]

    def __init__(self, config):
        super().__init__(config)
        self.words = nn.Embedding(100, 16)
        self.steps = nn.Embedding(100, 16)
        self.block = Block()

    def forward(self, input_ids: torch.Tensor, position_ids: torch.Tensor):
        return self.block(self.words(input_ids) + self.steps(position_ids))
```

## 应当这样写

```python
import torch
from torch import nn
from transformers import PreTrainedModel


class Block(nn.Module):
    def forward(self, x):
        return x


class Joined(PreTrainedModel):
    _no_split_modules = ["Block"]

    def __init__(self, config):
        super().__init__(config)
        self.words = nn.Embedding(100, 16)
        self.steps = nn.Embedding(100, 16)
        self.block = Block()

    def forward(self, input_ids: torch.Tensor, position_ids: torch.Tensor):
        words = self.words(input_ids)
        return self.block(words + self.steps(position_ids).to(words.device))
```

## 修复是否安全

不提供修复：后面要用哪一边的设备，要由人决定；通常是嵌入所在的设备。

## 已知局限

只看 transformers 和 diffusers 的模型类里、不会被 `_no_split_modules` 的块保持在一起的代码；调用者传入的张量也
算一个部分。实际的 device_map 未必在这里切开，所以这条规则默认关闭。

## 参考

- [大模型推理](https://huggingface.co/docs/accelerate/usage_guides/big_modeling)
"""

RULE = LintRule(
    code="SD218",
    name="parts-joined-without-move",
    title={
        "en": "parts of a spread model meet without a move",
        "zh": "分布模型的两个部分未经移动就相遇",
    },
    meaning={
        "en": "a device map may put the two parts on different GPUs",
        "zh": "device_map 可能把这两个部分放到不同的 GPU",
    },
    cure={
        "en": "move one to the device of the other: `.to(x.device)`",
        "zh": "把一个移动到另一个的设备：`.to(x.device)`",
    },
    sentences={
        "headline": {
            "en": "{one} and {other} may be on two GPUs when the model is spread",
            "zh": "模型分布之后，{one} 与 {other} 可能在两块 GPU 上",
        },
    },
    page={"en": __doc__ or "", "zh": _CHINESE},
    check=_check,
    cause="block-split-across-devices",
    words=("PreTrainedModel", "ModelMixin"),
    default=False,
)
