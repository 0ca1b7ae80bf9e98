"""Several processes put their model on one and the same GPU.

## What happens

`.cuda()` and `.to("cuda")` mean the current device, which is `cuda:0` in every process until
`torch.cuda.set_device` changes it; `"cuda:0"` means it always.

## Why it fails

NCCL refuses two ranks on one GPU ("Duplicate GPU detected"), DDP refuses a model that is not on its
`device_ids`, or all replicas fill one GPU until it is out of memory.

## Example

```python
dist.init_process_group("nccl")
model = DDP(model.cuda())
```

## Use instead

```python
local_rank = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(local_rank)
dist.init_process_group("nccl")
model = DDP(model.cuda(), device_ids=[local_rank])
```

## Fix safety

Safe.

## Known limits

A launcher that shows each process one GPU makes `cuda:0` right; a script that does so itself by
`CUDA_VISIBLE_DEVICES` is understood, a wrapper around it is not.

## References

- [DistributedDataParallel](https://docs.pytorch.org/docs/stable/generated/torch.nn.parallel.DistributedDataParallel.html)
- [torchrun](https://docs.pytorch.org/docs/stable/elastic/run.html)
"""

from __future__ import annotations

from samedevice.diagnosis._failure import Failure
from samedevice.diagnosis._rule import Hint, Rule, beside_the_first, said, sign
from samedevice.events import EventKind, Operand
from samedevice.messages import Phrase


def _detect(failure: Failure) -> Hint | None:
    """Two ranks of a process group meet on a GPU that none of them chose: the current one of each."""
    if failure.event.kind is not EventKind.DUPLICATE_GPU:
        return None
    current = next((each for each in failure.event.operands if _on_current(each)), None)
    share = Phrase("rules.rank-device-not-set.ranks-share")
    return Hint(7.5 if current else 5.0, share, current.name if current else None)


def _on_current(operand: Operand) -> bool:
    """Whether the line that put it there means whatever GPU is the current one."""
    newest = operand.decision
    if newest is None:
        return False
    named = (newest.said or "").strip("'\"")
    return newest.source == "current-gpu" or (newest.source == "literal" and named == "cuda")


_CHINESE = """几个进程把模型放到了同一块 GPU 上。

## 发生了什么

`.cuda()` 和 `.to("cuda")` 指的是当前设备；没有调用 `torch.cuda.set_device` 之前，每个进程的当前设备都是
`cuda:0`。`"cuda:0"` 则永远是它。

## 为什么会失败

NCCL 拒绝一块 GPU 上有两个 rank（“Duplicate GPU detected”）；DDP 拒绝不在 `device_ids` 上的模型；或者所
有副本挤在一块 GPU 上，直到显存用尽。

## 示例

```python
dist.init_process_group("nccl")
model = DDP(model.cuda())
```

## 应当这样写

```python
local_rank = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(local_rank)
dist.init_process_group("nccl")
model = DDP(model.cuda(), device_ids=[local_rank])
```

## 修复是否安全

安全。

## 已知局限

如果启动器只给每个进程露出一块 GPU，`cuda:0` 就是对的。脚本自己用 `CUDA_VISIBLE_DEVICES` 这样做，能看出
来；外面再套一层脚本这样做，看不出来。

## 参考

-
  [DistributedDataParallel](https://docs.pytorch.org/docs/stable/generated/torch.nn.parallel.DistributedDataParallel.html)
- [torchrun](https://docs.pytorch.org/docs/stable/elastic/run.html)
"""

RULE = Rule(
    code="SD402",
    name="rank-device-not-set",
    title={
        "en": "every rank works on the same GPU",
        "zh": "所有进程都在同一块 GPU 上",
    },
    meaning={
        "en": "several processes put their model on one GPU because no rank chose its own",
        "zh": "多个进程把模型放到同一块 GPU 上，因为没有进程选择自己的 GPU",
    },
    cure={
        "en": "call torch.cuda.set_device(local_rank) before anything is put on cuda",
        "zh": "在使用 cuda 之前调用 torch.cuda.set_device(local_rank)",
    },
    signs=(sign(3.6, said("duplicate-gpu")), sign(3.0, beside_the_first())),
    sentences={
        "ranks-share": {
            "en": "every process begins on cuda:0; nothing moved one of these ranks to a GPU of its own",
            "zh": "每个进程一开始都在 cuda:0；这些 rank 中至少有一个没有切换到自己的 GPU",
        },
    },
    page={"en": __doc__ or "", "zh": _CHINESE},
    detect=_detect,
)
