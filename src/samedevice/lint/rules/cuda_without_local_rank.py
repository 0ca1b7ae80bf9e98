"""Every process of a launch uses the same GPU.

## What happens

The program joins a process group and then says `.cuda()` or `.to("cuda")`, without having set the GPU of
its rank.

## Why it fails

`.cuda()` means the current GPU, and that is GPU 0 in each process. All ranks share its memory, and NCCL
refuses: "Duplicate GPU detected".

## Example

```python
import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

torch.distributed.init_process_group("nccl")
model = DistributedDataParallel(nn.Linear(8, 2).cuda())
```

## Use instead

```python
import os

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

torch.distributed.init_process_group("nccl")
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
model = DistributedDataParallel(nn.Linear(8, 2).cuda())
```

## Fix safety

No fix is offered: `torch.cuda.set_device(local_rank)` belongs right behind the start of the program.

## Known limits

Only files that join a process group themselves and set no device anywhere.

## References

- [Distributed data parallel](https://docs.pytorch.org/docs/stable/notes/ddp.html)
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from samedevice.lint._rule import Hit, LintRule
from samedevice.lint._source import LintedFile, short

_CHOOSE = (
    "set_device",
    "local_rank",
    "LOCAL_RANK",
    "local_process_index",
    "CUDA_VISIBLE_DEVICES",
    "set_device_index",
)


def _check(file: LintedFile) -> Iterator[Hit]:
    joins = any(
        file.dotted(call).startswith(("torch.", "dist.", "distributed."))
        for call in file.calls("init_process_group")
    )
    if (
        not joins
        or file.is_test
        or any(word in file.source.text for word in _CHOOSE)
        or "gloo" in file.source.text
    ):
        return
    for call in file.calls("cuda", "to"):
        if not isinstance(call.node.func, ast.Attribute):
            continue
        bare = call.name == "cuda" and not call.node.args and not call.node.keywords
        match call.node.args:
            case [ast.Constant(value="cuda"), *_] if call.name == "to":
                bare = True
        if bare and not file.dotted(call).startswith("torch."):
            yield Hit(call.node, {"call": short(call.node)})


_CHINESE = """一次启动的所有进程都用同一块 GPU。

## 发生了什么

程序加入了进程组，随后写 `.cuda()` 或 `.to("cuda")`，却没有设置本进程的 GPU。

## 为什么会失败

`.cuda()` 指的是当前 GPU，每个进程里都是 0 号。所有进程争用它的显存，NCCL 也会拒绝：“Duplicate GPU
detected”。

## 示例

```python
import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

torch.distributed.init_process_group("nccl")
model = DistributedDataParallel(nn.Linear(8, 2).cuda())
```

## 应当这样写

```python
import os

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

torch.distributed.init_process_group("nccl")
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
model = DistributedDataParallel(nn.Linear(8, 2).cuda())
```

## 修复是否安全

不提供修复：应当在程序一开始就调用 `torch.cuda.set_device(local_rank)`。

## 已知局限

只看自己加入进程组、而且没有在任何地方设置设备的文件。

## 参考

- [分布式数据并行](https://docs.pytorch.org/docs/stable/notes/ddp.html)
"""

RULE = LintRule(
    code="SD215",
    name="cuda-without-local-rank",
    title={
        "en": "every rank uses the same GPU",
        "zh": "所有进程都用同一块 GPU",
    },
    meaning={
        "en": "the current GPU is GPU 0 in each process until it is set",
        "zh": "没有设置之前，每个进程的当前 GPU 都是 0 号",
    },
    cure={
        "en": "call torch.cuda.set_device(local rank) first",
        "zh": "先调用 torch.cuda.set_device(本进程的 local rank)",
    },
    sentences={
        "headline": {
            "en": "{call} is GPU 0 in every process",
            "zh": "{call} 在每个进程里都是 0 号 GPU",
        },
    },
    page={"en": __doc__ or "", "zh": _CHINESE},
    check=_check,
    cause="rank-device-not-set",
    words=("init_process_group",),
)
