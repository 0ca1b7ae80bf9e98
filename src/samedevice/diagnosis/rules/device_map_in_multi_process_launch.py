"""A device map is used in a multi-process launch, or with ZeRO-3 or FSDP.

## What happens

`device_map="auto"` spreads one model over all GPUs, in every process of the launch; each process then trains
a model that is partly on the others' GPUs.

## Why it fails

DDP, ZeRO and FSDP decide placement themselves: one GPU per process. Libraries refuse the combination where
they notice it; where they do not, two processes meet on one GPU and tensors on several.

## Example

```bash
torchrun --nproc_per_node 8 train.py      # train.py: from_pretrained(..., device_map="auto")
```

## Use instead

```python
device_map = {"": int(os.environ.get("LOCAL_RANK", 0))}     # one GPU for each process
# ZeRO-3 and FSDP: no device_map at all; or plain `python train.py`
```

## Fix safety

Safe, but each process now needs the whole model on its GPU; if it does not fit, use ZeRO-3 or FSDP without a
map.

## Known limits

A plain device message in a multi-process launch need not come from a map.

## References

- [DeepSpeed integration](https://huggingface.co/docs/transformers/deepspeed)
"""

from __future__ import annotations

from samedevice.diagnosis._failure import Failure
from samedevice.diagnosis._rule import MAPPED, Hint, Rule, anywhere, launched, said, sign
from samedevice.events import EventKind
from samedevice.messages import Phrase


def _detect(failure: Failure) -> Hint | None:
    processes = failure.event.processes
    if failure.event.kind is EventKind.LAUNCH_CONFLICT:
        return Hint(
            9,
            Phrase("rules.device-map-in-multi-process-launch.asked-for-map", processes=str(processes)),
            certain=True,
        )
    if not failure.mismatch or processes < 2 or not failure.dispatched:
        return None
    odd = failure.odd(*failure.event.operands)
    return Hint(
        8.5,
        Phrase("rules.device-map-in-multi-process-launch.launched", processes=str(processes)),
        odd.name if odd else None,
    )


_CHINESE = """多进程启动，或者使用 ZeRO-3、FSDP 时，又写了 `device_map`。

## 发生了什么

`device_map="auto"` 会在启动的每一个进程里都把模型铺到所有 GPU 上；于是每个进程训练的模型都有一部分在别
的进程的 GPU 上。

## 为什么会失败

DDP、ZeRO、FSDP 自己决定放置：每个进程一块 GPU。库发现冲突时会拒绝；没有发现时，两个进程挤在同一块 GPU
上，张量分散在多块 GPU 上。

## 示例

```bash
torchrun --nproc_per_node 8 train.py      # train.py 里有 from_pretrained(..., device_map="auto")
```

## 应当这样写

```python
device_map = {"": int(os.environ.get("LOCAL_RANK", 0))}     # 每个进程一块 GPU
# ZeRO-3 和 FSDP：完全不写 device_map；或者直接 `python train.py`
```

## 修复是否安全

安全，但每个进程都要在自己的 GPU 上放下整个模型；放不下时，不写 `device_map`，改用 ZeRO-3 或 FSDP。

## 已知局限

多进程启动中出现的普通设备报错，不一定来自 `device_map`。

## 参考

- [DeepSpeed integration](https://huggingface.co/docs/transformers/deepspeed)
"""

RULE = Rule(
    code="SD132",
    name="device-map-in-multi-process-launch",
    title={
        "en": "a device_map is used in a multi-process launch",
        "zh": "多进程启动时使用了 device_map",
    },
    meaning={
        "en": "each process of a launch (DDP, ZeRO-3, FSDP) spreads the model over all GPUs by a map",
        "zh": "多进程（DDP、ZeRO-3、FSDP）中的每个进程都用 device_map 把模型铺到所有 GPU 上",
    },
    cure={
        "en": 'give each process its own map {{"": local_rank}}, or none; or start one process',
        "zh": '给每个进程单独的 device_map {{"": local_rank}}，或不用 device_map；也可以只启动一个进程',
    },
    sentences={
        "launched": {
            "en": "{processes} processes were launched and the model has a device_map",
            "zh": "启动了 {processes} 个进程，而模型又用了 device_map",
        },
        "asked-for-map": {
            "en": "a map is asked for in a launch of {processes} processes",
            "zh": "{processes} 个进程的启动中要求使用 device_map",
        },
    },
    page={"en": __doc__ or "", "zh": _CHINESE},
    common=0.35,
    signs=(
        sign(
            8, said("device-map-distributed device-map-zero3 device-map-other-process-device"), certain=True
        ),
        sign(6, said("ddp-module")),
        sign(
            2.6,
            launched(),
            anywhere(MAPPED),
        ),
        sign(0.8, launched(), said("same-device argument-device", devices="gpus")),
    ),
    detect=_detect,
)
