"""A collective got a tensor that is not on the GPU of its process group.

## What happens

`all_reduce`, `broadcast` or another call of `torch.distributed` gets a tensor on the host, on another GPU
than the group works on, or tensors of one coalesced call on several GPUs.

## Why it fails

NCCL reads memory of one GPU per rank and moves nothing there. c10d raises "No backend type associated with
device type cpu", "Tensors must be CUDA and dense", "Expected list of tensors on the same device", or, where
the group was bound with `device_id=`, "Attempt to perform collective on tensor not on device passed to
init_process_group". A rank that comes with another GPU than before, where the others do not, raises nothing:
all ranks wait until the timeout. From torch 2.15 on, each group belongs to one GPU, and each tensor is
compared with it: "Expected tensor on cuda:1 but found tensor on cuda:0".

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

Up to torch 2.14, of a list of tensors that is not a coalesced call c10d compares no devices; such a call is
[SD105](SD105.md).

## References

- [Backends of torch.distributed](https://docs.pytorch.org/docs/stable/distributed.html#backends)
- torch, `torch/csrc/distributed/c10d/ProcessGroup.cpp`, `ProcessGroupNCCL.cpp` and `nccl2/`
"""

from __future__ import annotations

from samedevice.diagnosis._rule import Rule, said, sign
from samedevice.events import EventKind

_CHINESE = """集合通信收到的张量不在进程组所用的 GPU 上。

## 发生了什么

`all_reduce`、`broadcast` 等 `torch.distributed` 调用收到了 CPU 上的张量、进程组之外的 GPU 上的张量，或
者一次合并调用里的张量分布在多块 GPU 上。

## 为什么会失败

NCCL 对每个 rank 只读一块 GPU 的显存，不会移动任何数据。c10d 会报 “No backend type associated with
device type cpu”“Tensors must be CUDA and dense”“Expected list of tensors on the same device”；如果建组
时用 `device_id=` 绑定了设备，则报 “Attempt to perform collective on tensor not on device passed to
init_process_group”。如果某个 rank 这次换了一块 GPU 而其他 rank 没有换，则什么错都不报：所有 rank 一直等
到超时。从 torch 2.15 起，每个进程组都固定属于一块 GPU，每个张量都会与它比较，报 “Expected tensor on cuda:1
but found tensor on cuda:0”。

## 示例

```python
dist.init_process_group("nccl")
loss = torch.tensor(total)                            # 在 CPU 上
dist.all_reduce(loss)
```

## 应当这样写

```python
loss = torch.tensor(total, device="cuda")             # 之前已经 torch.cuda.set_device(local_rank)
dist.all_reduce(loss)
```

## 修复是否安全

在创建张量的地方改是安全的。在调用处移动则不行：`dist.all_reduce(x.to("cuda"))` 改的是一份没人保存的副本。

## 已知局限

torch 2.14 及更早的版本里，不属于合并调用的张量列表，c10d 不比较设备；这种调用记为 [SD105](SD105.md)。

## 参考

- [torch.distributed 的后端](https://docs.pytorch.org/docs/stable/distributed.html#backends)
- torch 源码 `torch/csrc/distributed/c10d/ProcessGroup.cpp`、`ProcessGroupNCCL.cpp` 和 `nccl2/`
"""

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
    page={"en": __doc__ or "", "zh": _CHINESE},
    kind=EventKind.COLLECTIVE,
    signs=(sign(5, said("collective-device")),),
)
