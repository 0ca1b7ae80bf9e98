"""Processes that share a GPU need more memory than it has.

## What happens

Several processes of a run used the same GPU at the same time. Each fits alone; the sum of their peaks does
not.

## Why it fails

A process keeps what it held at its peak: torch's allocator returns nothing to the GPU by itself. The process
that asks last gets `CUDA out of memory`, although its own use is small.

## Example

```python
model = Model().cuda()                                # every rank: cuda:0
```

## Use instead

```python
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
model = Model().cuda()
```

## Fix safety

Safe.

## Known limits

Found when the run is over, so no statement is named. Peaks are added of processes whose lives overlapped; a
process that gives memory back with `torch.cuda.empty_cache()` before another one needs it is counted all the
same. What CUDA itself takes for each process (some hundred MiB) is not counted.

## References

- [Memory management of torch](https://docs.pytorch.org/docs/stable/notes/cuda.html#memory-management)
"""

from __future__ import annotations

from samedevice.diagnosis._rule import Rule
from samedevice.events import EventKind

_CHINESE = """共用一块 GPU 的几个进程需要的显存超过了它的总量。

## 发生了什么

一次运行里有几个进程同时使用同一块 GPU。单独一个放得下，各自的峰值加起来就放不下了。

## 为什么会失败

进程会一直占着峰值时的显存：torch 的分配器不会主动还给 GPU。最后申请的进程得到 `CUDA out of memory`，尽
管它自己用得很少。

## 示例

```python
model = Model().cuda()                                # 每个 rank 都在 cuda:0
```

## 应当这样写

```python
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
model = Model().cuda()
```

## 修复是否安全

安全。

## 已知局限

运行结束后才能得出，因此不指明语句。只要进程的存活时间有重叠，峰值就会相加；某个进程在另一个需要之前用
`torch.cuda.empty_cache()` 归还的显存也照样计入。CUDA 自身在每个进程里占用的几百 MiB 不计。

## 参考

- [torch 的显存管理](https://docs.pytorch.org/docs/stable/notes/cuda.html#memory-management)
"""

RULE = Rule(
    code="SD110",
    name="gpu-shared-beyond-its-memory",
    title={
        "en": "processes on one GPU need more memory than it has",
        "zh": "同一块 GPU 上的进程需要的显存超过它的总量",
    },
    meaning={
        "en": "several processes used one GPU at the same time, and the sum of their peaks is above its "
        "memory",
        "zh": "多个进程同时使用同一块 GPU，它们的显存峰值之和超过了它的总量",
    },
    cure={
        "en": "give each process a GPU of its own, or let each need less",
        "zh": "让每个进程使用自己的 GPU，或减少每个进程的显存",
    },
    sentences={
        "headline": {
            "en": "processes that share {devices} need more memory than it has",
            "zh": "共用 {devices} 的进程需要的显存超过它的总量",
        },
        "why": {
            "en": "each process keeps what it held at its peak; on real hardware one of them runs out of "
            "memory",
            "zh": "每个进程都保留自己峰值时的显存；在真实硬件上，其中一个进程会耗尽显存",
        },
    },
    page={"en": __doc__ or "", "zh": _CHINESE},
    kind=EventKind.SHARED_GPU,
)
