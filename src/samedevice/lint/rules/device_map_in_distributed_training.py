"""A model is spread over the GPUs in a program whose launcher gives each process one of them.

## What happens

The file trains with DistributedDataParallel, DeepSpeed, FSDP or accelerate's `prepare`, and loads the model
with `device_map="auto"`.

## Why it fails

Every process spreads its model over all GPUs, so they share them, and wrappers that expect one device for
each process refuse the model or fail in the first step.

## Example

```python
import torch
from torch.nn.parallel import DistributedDataParallel
from transformers import AutoModelForCausalLM

torch.distributed.init_process_group("nccl")
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-8B", device_map="auto")
model = DistributedDataParallel(model)
```

## Use instead

```python
import os

import torch
from torch.nn.parallel import DistributedDataParallel
from transformers import AutoModelForCausalLM

torch.distributed.init_process_group("nccl")
rank = int(os.environ["LOCAL_RANK"])
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-8B", device_map={"": rank})
model = DistributedDataParallel(model)
```

## Fix safety

No fix is offered: a process may need no map at all, or one with everything on its own GPU.

## Known limits

Only maps that accelerate draws count, and only where the file itself shows that several processes train.
For what a launcher starts, `samedevice preflight` knows more.

## References

- [Big model inference](https://huggingface.co/docs/accelerate/usage_guides/big_modeling)
"""

from __future__ import annotations

from collections.abc import Iterator

from samedevice.lint._device_maps import maps_in
from samedevice.lint._rule import Hit, LintRule
from samedevice.lint._source import LintedFile, short

_SEVERAL = (
    "DistributedDataParallel",
    "DDP",
    "FullyShardedDataParallel",
    "FSDP",
    "fully_shard",
    "init_process_group",
)


def _check(file: LintedFile) -> Iterator[Hit]:
    several = any(name in file.source.calls for name in _SEVERAL) or any(
        file.dotted(call).startswith("deepspeed.") for call in file.calls("initialize")
    )
    prepared = "Accelerator" in file.source.calls and "prepare" in file.source.calls
    if file.is_test or not (several or prepared) or ("backward" not in file.source.text and not several):
        return
    for call in maps_in(file):
        yield Hit(call.node, {"call": short(call.node, 40)})


_CHINESE = """多进程训练的程序里，模型又被 device_map 分布到各块 GPU 上。

## 发生了什么

这个文件用 DistributedDataParallel、DeepSpeed、FSDP 或 accelerate 的 `prepare` 训练，却用
`device_map="auto"` 加载模型。

## 为什么会失败

每个进程都把模型铺到全部 GPU 上，互相争用；而要求一个进程一块 GPU 的封装会拒绝这个模型，或者在第一步就失
败。

## 示例

```python
import torch
from torch.nn.parallel import DistributedDataParallel
from transformers import AutoModelForCausalLM

torch.distributed.init_process_group("nccl")
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-8B", device_map="auto")
model = DistributedDataParallel(model)
```

## 应当这样写

```python
import os

import torch
from torch.nn.parallel import DistributedDataParallel
from transformers import AutoModelForCausalLM

torch.distributed.init_process_group("nccl")
rank = int(os.environ["LOCAL_RANK"])
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-8B", device_map={"": rank})
model = DistributedDataParallel(model)
```

## 修复是否安全

不提供修复：可能完全不需要 device_map，也可能要把整个模型放到本进程的 GPU 上。

## 已知局限

只看由 accelerate 决定的分布，而且文件本身要能看出是多进程训练。启动方式的问题，`samedevice preflight`
知道得更多。

## 参考

- [大模型推理](https://huggingface.co/docs/accelerate/usage_guides/big_modeling)
"""

RULE = LintRule(
    code="SD204",
    name="device-map-in-distributed-training",
    title={
        "en": "device_map in training with several processes",
        "zh": "多进程训练里使用 device_map",
    },
    meaning={
        "en": "a device map and a launcher both distribute the model",
        "zh": "device_map 与启动器都在分布模型",
    },
    cure={
        "en": "leave device_map out, or give one with everything on the GPU of the rank",
        "zh": "去掉 device_map，或者让它把整个模型放到本进程的 GPU 上",
    },
    sentences={
        "headline": {
            "en": "{call} spreads the model in each of several processes",
            "zh": "{call} 在每个进程里都把模型铺到全部 GPU",
        },
    },
    page={"en": __doc__ or "", "zh": _CHINESE},
    check=_check,
    cause="device-map-in-multi-process-launch",
    words=("device_map",),
)
