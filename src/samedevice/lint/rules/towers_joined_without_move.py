"""A model joins what two of its towers give without bringing them together.

## What happens

A model that may be spread over devices has two parts with blocks of their own, such as a tower for pictures
and a language model. It multiplies, adds or joins what the two give.

## Why it fails

A device map fills one GPU after the other. Each of the two parts holds many blocks, so for most maps what
they give is on two GPUs. Accelerate's hooks move what goes into a module, not what meets between modules.

## Example

```python
import torch
from torch import nn
from transformers import PreTrainedModel


class Block(nn.Module):
    def forward(self, x):
        return x


class Tower(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.blocks = nn.ModuleList([Block() for _ in range(config.depth)])

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return x


class Pair(PreTrainedModel):
    _no_split_modules = ["Block"]

    def __init__(self, config):
        super().__init__(config)
        self.text = Tower(config)
        self.image = Tower(config)

    def forward(self, input_ids: torch.Tensor, pixel_values: torch.Tensor):
        text = self.text(input_ids)
        image = self.image(pixel_values)
        return torch.matmul(text, image.t())
```

## Use instead

```python
import torch
from torch import nn
from transformers import PreTrainedModel


class Block(nn.Module):
    def forward(self, x):
        return x


class Tower(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.blocks = nn.ModuleList([Block() for _ in range(config.depth)])

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return x


class Pair(PreTrainedModel):
    _no_split_modules = ["Block"]

    def __init__(self, config):
        super().__init__(config)
        self.text = Tower(config)
        self.image = Tower(config)

    def forward(self, input_ids: torch.Tensor, pixel_values: torch.Tensor):
        text = self.text(input_ids)
        image = self.image(pixel_values)
        return torch.matmul(text, image.to(text.device).t())
```

## Fix safety

No fix is offered: which of the two devices the rest expects is for a person to say.

## Known limits

Only classes of models of transformers and diffusers, what stands outside the blocks that `_no_split_modules`
keeps together, and parts of which the source shows that they hold a list of modules or are models themselves.
SD218 names joins of smaller parts as well.

## References

- [Big model inference](https://huggingface.co/docs/accelerate/usage_guides/big_modeling)
"""

from __future__ import annotations

from collections.abc import Iterator

from samedevice.lint._parts import Towers, parts_that_meet
from samedevice.lint._rule import Hit, LintRule
from samedevice.lint._source import LintedFile, short


def _check(file: LintedFile) -> Iterator[Hit]:
    if file.is_test:
        return
    towers = Towers(file)
    for apart in parts_that_meet(file):
        every = apart.one[1] | apart.other[1]
        if all(towers.is_one(apart.owner, part) for part in every):
            values = {"one": short(apart.one[0], 40), "other": short(apart.other[0], 40)}
            yield Hit(apart.meeting.node, values)


_CHINESE = """模型把两个塔的输出合在一起，却没有先放到同一个设备上。

## 发生了什么

可以分布到多个设备的模型有两个各自带有多个块的部分，例如图像塔和语言模型；两边的输出被相乘、相加或拼接。

## 为什么会失败

device_map 依次填满每块 GPU。两个部分都有许多块，所以在多数 device_map 下，两边的输出在两块 GPU 上。
accelerate 的钩子移动进入模块的张量，不管模块之间相遇的张量。

## 示例

```python
import torch
from torch import nn
from transformers import PreTrainedModel


class Block(nn.Module):
    def forward(self, x):
        return x


class Tower(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.blocks = nn.ModuleList([Block() for _ in range(config.depth)])

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return x


class Pair(PreTrainedModel):
    _no_split_modules = ["Block"]

    def __init__(self, config):
        super().__init__(config)
        self.text = Tower(config)
        self.image = Tower(config)

    def forward(self, input_ids: torch.Tensor, pixel_values: torch.Tensor):
        text = self.text(input_ids)
        image = self.image(pixel_values)
        return torch.matmul(text, image.t())
```

## 应当这样写

```python
import torch
from torch import nn
from transformers import PreTrainedModel


class Block(nn.Module):
    def forward(self, x):
        return x


class Tower(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.blocks = nn.ModuleList([Block() for _ in range(config.depth)])

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return x


class Pair(PreTrainedModel):
    _no_split_modules = ["Block"]

    def __init__(self, config):
        super().__init__(config)
        self.text = Tower(config)
        self.image = Tower(config)

    def forward(self, input_ids: torch.Tensor, pixel_values: torch.Tensor):
        text = self.text(input_ids)
        image = self.image(pixel_values)
        return torch.matmul(text, image.to(text.device).t())
```

## 修复是否安全

不提供修复：后面要用哪一边的设备，要由人决定。

## 已知局限

只看 transformers 和 diffusers 的模型类里、不会被 `_no_split_modules` 的块保持在一起的代码，而且源代码要能看出
两个部分各有一个模块列表，或者本身就是模型。较小部分之间的相遇见 SD218。

## 参考

- [大模型推理](https://huggingface.co/docs/accelerate/usage_guides/big_modeling)
"""

RULE = LintRule(
    code="SD223",
    name="towers-joined-without-move",
    title={
        "en": "two towers of a spread model meet without a move",
        "zh": "分布模型的两个塔未经移动就相遇",
    },
    meaning={
        "en": "a device map puts two parts with many blocks each on different GPUs",
        "zh": "device_map 会把两个各有许多块的部分放到不同的 GPU",
    },
    cure={
        "en": "move one to the device of the other: `.to(x.device)`",
        "zh": "把一个移动到另一个的设备：`.to(x.device)`",
    },
    sentences={
        "headline": {
            "en": "{one} and {other} come from two towers, which a device map puts on two GPUs",
            "zh": "{one} 与 {other} 来自两个塔，device_map 会把它们放到两块 GPU 上",
        },
    },
    page={"en": __doc__ or "", "zh": _CHINESE},
    check=_check,
    cause="block-split-across-devices",
    words=("PreTrainedModel", "ModelMixin"),
    default=False,
)
