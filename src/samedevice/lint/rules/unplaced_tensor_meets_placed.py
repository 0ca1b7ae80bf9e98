"""A tensor is made without `device=` and then meets one that has a device.

## What happens

`torch.arange(n)`, `torch.zeros(shape)` or `torch.tensor([...])` makes a tensor in host memory. A few lines on
it is added to, joined with or given to something that is where the model or its input is.

## Why it fails

The code works as long as everything is on the CPU, so tests pass. On a GPU the two are on different devices:
"Expected all tensors to be on the same device".

## Example

```python
import torch
from torch import nn


class Positions(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(512, 64)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        steps = torch.arange(x.shape[1])
        return x + self.table(steps)
```

## Use instead

```python
import torch
from torch import nn


class Positions(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(512, 64)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        steps = torch.arange(x.shape[1], device=x.device)
        return x + self.table(steps)
```

## Fix safety

Safe: values, types and shapes stay as they are. The fix is offered where an argument or a weight that the
tensor meets is at hand on the line that makes it.

## Known limits

Tensors of no dimensions (`torch.tensor(1.0)`) are left out, unless they are written in place: CUDA accepts
them from the host. So are
indices of the host (one of a GPU into a tensor of the host is a mistake), tests, constructors and what only
they call, code that prepares data, and files that change the default device. What a library's own function
gives is not followed. In a comparison only the first tensor of a function's arguments counts, its input:
callers may keep others, such as lengths, on the host. A private function to which the file only gives tensors
of the host is left out. Whether a function of a library ever gets a tensor of a GPU is for its callers to
say: the rule is off by default.

## References

- [Creation operators](https://docs.pytorch.org/docs/stable/torch.html#creation-ops)
"""

from __future__ import annotations

from collections.abc import Iterator

from samedevice.lint._rule import Hit, LintRule
from samedevice.lint._source import LintedFile
from samedevice.lint._unplaced import SENTENCES, on_a_gpu, unplaced


def _check(file: LintedFile) -> Iterator[Hit]:
    yield from unplaced(file, RULE, lambda met: not on_a_gpu(met))


_CHINESE = """张量创建时没有写 `device=`，随后与有设备的张量相遇。

## 发生了什么

`torch.arange(n)`、`torch.zeros(shape)`、`torch.tensor([...])` 在内存里创建张量；没过几行，它就和模型或输入
所在设备上的张量相加、拼接，或者被传给模型的一部分。

## 为什么会失败

全部都在 CPU 上时一切正常，测试也能通过。到了 GPU 上，两边就不在同一设备：“Expected all tensors to be on
the same device”。

## 示例

```python
import torch
from torch import nn


class Positions(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(512, 64)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        steps = torch.arange(x.shape[1])
        return x + self.table(steps)
```

## 应当这样写

```python
import torch
from torch import nn


class Positions(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(512, 64)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        steps = torch.arange(x.shape[1], device=x.device)
        return x + self.table(steps)
```

## 修复是否安全

安全：数值、类型、形状都不变。只有在创建张量的那一行能直接用到它所遇到的参数或权重时，才给出修复。

## 已知局限

零维张量（`torch.tensor(1.0)`）不算，除非它被原地改写：CUDA 接受内存里的零维张量。内存里的索引也不算
（反过来，用 GPU 上的索引去取内存里的张量则是错误）。
测试文件、构造函数及只被构造函数调用的函数、准备数据的代码、改动了默认设备的文件都不算。
第三方库函数的返回值不追踪。比较运算里只看函数的第一个张量参数，也就是输入；长度之类的其他参数，调用者可能有意
放在内存里。私有函数若在本文件里只收到内存里的张量，也不算。
库里的函数究竟会不会收到 GPU 上的张量，由调用者决定，所以这条规则默认关闭。

## 参考

- [创建张量的算子](https://docs.pytorch.org/docs/stable/torch.html#creation-ops)
"""

RULE = LintRule(
    code="SD201",
    name="unplaced-tensor-meets-placed",
    title={
        "en": "a tensor made without a device meets one that has one",
        "zh": "没有指定设备的张量遇到了有设备的张量",
    },
    meaning={
        "en": "what is made without `device=` is on the host; it is used together with what follows the "
        "model or "
        "its input",
        "zh": "不写 `device=` 创建的张量在内存里，却与跟随模型或输入的张量一起运算",
    },
    cure={
        "en": "make it with `device=` of what it meets",
        "zh": "创建时用 `device=` 写明它要遇到的张量所在的设备",
    },
    sentences={
        "headline": {
            "en": "{made} is made on the host and meets what may be on a GPU",
            "zh": "{made} 创建在内存里，却会遇到可能在 GPU 上的张量",
        },
        **SENTENCES,
    },
    page={"en": __doc__ or "", "zh": _CHINESE},
    check=_check,
    cause="tensor-created-on-wrong-device",
    words=("import torch", "from torch"),
    default=False,
)
