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
    page=__doc__ or "",
    kind=EventKind.DUPLICATE_GPU,
)
