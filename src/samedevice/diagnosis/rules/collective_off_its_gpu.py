"""A collective got a tensor that is not on the GPU of its process group.

## What happens

`all_reduce`, `broadcast` or another call of `torch.distributed` gets a tensor on the host, on another GPU
than the group works on, or tensors of one coalesced call on several GPUs.

## Why it fails

NCCL reads memory of one GPU per rank and moves nothing there. c10d raises "No backend type associated with
device type cpu", "Tensors must be CUDA and dense", "Expected list of tensors on the same device", or, where
the group was bound with `device_id=`, "Attempt to perform collective on tensor not on device passed to
init_process_group". A rank that comes with another GPU than before, where the others do not, raises nothing:
all ranks wait until the timeout.

## Example

```python
dist.init_process_group("nccl")
loss = torch.tensor(total)                            # on the host
dist.all_reduce(loss)
```

## Use instead

```python
loss = torch.tensor(total, device="cuda")             # after torch.cuda.set_device(local_rank)
dist.all_reduce(loss)
```

## Fix safety

Safe where the tensor is made. Moving it in the call is not: `dist.all_reduce(x.to("cuda"))` changes a copy
that nobody keeps.

## Known limits

Of a list of tensors that is not a coalesced call, c10d compares no devices; such a call is [SD105](SD105.md).

## References

- [Backends of torch.distributed](https://docs.pytorch.org/docs/stable/distributed.html#backends)
- torch, `torch/csrc/distributed/c10d/ProcessGroup.cpp` and `ProcessGroupNCCL.cpp`
"""

from __future__ import annotations

from samedevice.diagnosis._rule import Rule
from samedevice.events import EventKind

RULE = Rule(
    code="SD109",
    name="collective-off-its-gpu",
    title={
        "en": "a collective got a tensor that is not on its group's GPU",
        "zh": "集合通信收到了不在进程组 GPU 上的张量",
    },
    meaning={
        "en": "a call of torch.distributed got a tensor on the host or on another GPU than its process group "
        "works on",
        "zh": "torch.distributed 的调用收到了 CPU 上的张量，或与进程组不在同一块 GPU 上的张量",
    },
    cure={
        "en": "make the tensor on the GPU of the rank before the call",
        "zh": "在调用之前，把张量创建在该 rank 自己的 GPU 上",
    },
    sentences={
        "headline": {
            "en": "{op} got a tensor on {devices}, and its process group works on {home}",
            "zh": "{op} 收到了 {devices} 上的张量，而它的进程组在 {home} 上工作",
        },
        "why": {
            "en": "each rank of a process group takes part with one GPU, and the call moves no tensor there",
            "zh": "进程组的每个 rank 只用一块 GPU 参与通信，调用不会把张量移过去",
        },
    },
    page=__doc__ or "",
    kind=EventKind.COLLECTIVE,
)
