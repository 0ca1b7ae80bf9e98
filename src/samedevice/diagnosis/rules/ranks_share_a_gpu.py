"""Two ranks of one process group use the same GPU.

## What happens

The first collective of the group finds two ranks with tensors on one and the same physical GPU, mostly
`cuda:0`.

## Why it fails

NCCL makes a communicator with one rank per GPU and refuses anything else: `Duplicate GPU detected`. Launchers
start one process per GPU, but each process sees all GPUs and begins on `cuda:0`; choosing its own is the
script's duty.

## Example

```python
dist.init_process_group("nccl")
model = model.cuda()                                  # every rank: cuda:0
model = DistributedDataParallel(model)
```

## Use instead

```python
local_rank = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(local_rank)                     # before the first tensor
dist.init_process_group("nccl", device_id=torch.device("cuda", local_rank))
model = model.cuda()
```

## Fix safety

Safe.

## Known limits

Ranks are compared at a group's first collective, as NCCL does. What they need of the GPU together is told by
[SD110](SD110.md).

## References

- [torchrun](https://docs.pytorch.org/docs/stable/elastic/run.html)
- NCCL, `src/init.cc`: "Duplicate GPU detected"
"""

from __future__ import annotations

from samedevice.diagnosis._rule import Rule
from samedevice.events import EventKind

_CHINESE = """同一个进程组里的两个 rank 用了同一块 GPU。

## 发生了什么

进程组的第一次集合通信发现，两个 rank 的张量在同一块物理 GPU 上，多半是 `cuda:0`。

## 为什么会失败

NCCL 建立通信组时每块 GPU 只允许一个 rank，否则拒绝：`Duplicate GPU detected`。启动器为每块 GPU 启动一个
进程，但每个进程都看得到全部 GPU，并且都从 `cuda:0` 开始；选择自己的那一块是脚本的责任。

## 示例

```python
dist.init_process_group("nccl")
model = model.cuda()                                  # 每个 rank 都在 cuda:0
model = DistributedDataParallel(model)
```

## 应当这样写

```python
local_rank = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(local_rank)                     # 在创建第一个张量之前
dist.init_process_group("nccl", device_id=torch.device("cuda", local_rank))
model = model.cuda()
```

## 修复是否安全

安全。

## 已知局限

与 NCCL 一样，在进程组第一次集合通信时比较各个 rank。它们合起来需要多少显存，由 [SD110](SD110.md) 说明。

## 参考

- [torchrun](https://docs.pytorch.org/docs/stable/elastic/run.html)
- NCCL 源码 `src/init.cc`：“Duplicate GPU detected”
"""

RULE = Rule(
    code="SD107",
    name="ranks-share-a-gpu",
    title={
        "en": "two ranks use the same GPU",
        "zh": "两个进程使用同一块 GPU",
    },
    meaning={
        "en": "two ranks of one process group have their tensors on the same GPU, which NCCL refuses",
        "zh": "同一进程组的两个 rank 把张量放在同一块 GPU 上，NCCL 会拒绝",
    },
    cure={
        "en": 'call torch.cuda.set_device(int(os.environ["LOCAL_RANK"])) before each process makes its first '
        'tensor; write "cuda", not "cuda:0"',
        "zh": '在每个进程创建第一个张量之前调用 torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))，并写'
        ' "cuda" 而不是 "cuda:0"',
    },
    sentences={
        "headline": {
            "en": "two ranks of a process group use the same GPU",
            "zh": "同一进程组的两个 rank 使用同一块 GPU",
        },
        "why": {
            "en": "NCCL makes a communicator with one rank per GPU; every process begins on cuda:0 until it "
            "chooses another",
            "zh": "NCCL 的通信组要求每块 GPU 只有一个 rank；进程若不自行选择，都从 cuda:0 开始",
        },
    },
    page={"en": __doc__ or "", "zh": _CHINESE},
    kind=EventKind.DUPLICATE_GPU,
)
