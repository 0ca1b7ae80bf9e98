"""A tensor is made without `device=` and then meets one that the same code puts on a GPU.

## What happens

`torch.arange(n)`, `torch.zeros(shape)` or `torch.tensor([...])` makes a tensor in host memory. A few lines on
it is added to, joined with or given to something that was sent to `"cuda"`, to `"cuda:1"` or to a variable
that holds such a device.

## Why it fails

The two are on different devices: "Expected all tensors to be on the same device".

## Example

```python
import torch

device = "cuda" if torch.cuda.is_available() else "cpu"
model = torch.nn.Linear(8, 8).to(device)
hidden = model(torch.ones(2, 8, device=device))
scores = hidden + torch.arange(8)
```

## Use instead

```python
import torch

device = "cuda" if torch.cuda.is_available() else "cpu"
model = torch.nn.Linear(8, 8).to(device)
hidden = model(torch.ones(2, 8, device=device))
scores = hidden + torch.arange(8, device=hidden.device)
```

## Fix safety

Safe: values, types and shapes stay as they are. The fix is offered where the tensor is made beside what it
meets, or where an argument or a weight on that device is at hand.

## Known limits

What [SD201](SD201.md) leaves out is left out here, too: tensors of no dimensions, indices of the host, tests
and code that prepares data. Where the other tensor follows what a caller hands over, SD201 tells it, which is
off by default.

## References

- [Creation operators](https://docs.pytorch.org/docs/stable/torch.html#creation-ops)
"""

from __future__ import annotations

from collections.abc import Iterator

from samedevice.lint._rule import Hit, LintRule
from samedevice.lint._source import LintedFile
from samedevice.lint._unplaced import SENTENCES, on_a_gpu, unplaced


def _check(file: LintedFile) -> Iterator[Hit]:
    yield from unplaced(file, RULE, on_a_gpu)


_CHINESE = """张量创建时没有写 `device=`，随后与同一份代码放到 GPU 上的张量相遇。

## 发生了什么

`torch.arange(n)`、`torch.zeros(shape)`、`torch.tensor([...])` 在内存里创建张量；没过几行，它就和被送到
`"cuda"`、`"cuda:1"`（或保存着这类设备的变量）的张量相加、拼接，或者一起传给别的函数。

## 为什么会失败

两边不在同一设备：“Expected all tensors to be on the same device”。

## 示例

```python
import torch

device = "cuda" if torch.cuda.is_available() else "cpu"
model = torch.nn.Linear(8, 8).to(device)
hidden = model(torch.ones(2, 8, device=device))
scores = hidden + torch.arange(8)
```

## 应当这样写

```python
import torch

device = "cuda" if torch.cuda.is_available() else "cpu"
model = torch.nn.Linear(8, 8).to(device)
hidden = model(torch.ones(2, 8, device=device))
scores = hidden + torch.arange(8, device=hidden.device)
```

## 修复是否安全

安全：数值、类型、形状都不变。只有张量就在它所遇到的张量旁边创建，或者手边有同一设备上的参数或权重时，才给出修复。

## 已知局限

[SD201](SD201.zh.md) 不算的，这里也不算：零维张量、内存里的索引、测试文件、准备数据的代码。
另一个张量跟随调用者传入的东西时，由默认关闭的 SD201 来报。

## 参考

- [创建张量的算子](https://docs.pytorch.org/docs/stable/torch.html#creation-ops)
"""

RULE = LintRule(
    code="SD229",
    name="unplaced-tensor-meets-gpu",
    title={
        "en": "a tensor made without a device meets one on a GPU",
        "zh": "没有指定设备的张量遇到了 GPU 上的张量",
    },
    meaning={
        "en": "what is made without `device=` is on the host; it is used together with what this code puts "
        "on a GPU",
        "zh": "不写 `device=` 创建的张量在内存里，却与这份代码放到 GPU 上的张量一起运算",
    },
    cure={
        "en": "make it with `device=` of what it meets",
        "zh": "创建时用 `device=` 写明它要遇到的张量所在的设备",
    },
    sentences={
        "headline": {
            "en": "{made} is made on the host and meets what is on a GPU",
            "zh": "{made} 创建在内存里，却会遇到 GPU 上的张量",
        },
        **SENTENCES,
    },
    page={"en": __doc__ or "", "zh": _CHINESE},
    check=_check,
    cause="tensor-created-on-wrong-device",
    words=("import torch", "from torch"),
)
