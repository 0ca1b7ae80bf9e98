"""Memory of GPUs that other processes hold."""

from __future__ import annotations

from collections.abc import Iterator

from samedevice.doctor.check import Check, Fault
from samedevice.doctor.facts import Facts
from samedevice.doctor.visible import seen_gpus
from samedevice.messages import Phrase

_SHARE = 0.05
"""Of a GPU's memory; less is a desktop, a monitor, the context of an idle program."""


def _look(facts: Facts) -> Iterator[Fault]:
    for gpu in seen_gpus(facts):
        used, total = gpu.used_mib, gpu.memory_mib
        if gpu.mig or not used or not total or used < _SHARE * total:
            continue
        holders = [each for each in gpu.processes if each.used_mib is None or each.used_mib >= _SHARE * total]
        values = {"index": gpu.index, "used": used, "total": total}
        if holders:
            listed = ", ".join(f"{each.name or '?'} (pid {each.pid})" for each in holders[:4])
            pids = " ".join(str(each.pid) for each in holders)
            yield Fault(
                Phrase("checks.memory-held-by-others.held", **values, holders=listed),
                Phrase("checks.memory-held-by-others.end", pids=pids, index=gpu.index),
            )
        else:
            yield Fault(
                Phrase("checks.memory-held-by-others.hidden", **values),
                Phrase("checks.memory-held-by-others.find", index=gpu.index),
                "likely",
            )


CHECK = Check(
    code="SD313",
    name="memory-held-by-others",
    title={"en": "other processes hold memory of a GPU", "zh": "GPU 显存被别的进程占着"},
    reads=("driver", "gpus"),
    sources=("nvidia-smi -q: Processes, FB Memory Usage",),
    look=_look,
    sentences={
        "held": {
            "en": "GPU {index}: {used} of {total} MiB are held by {holders}; device_map and batch sizes "
            "get what is left",
            "zh": "GPU {index}：{total} MiB 显存里有 {used} MiB 被 {holders} 占用，device_map 和 batch "
            "只能用剩下的",
        },
        "hidden": {
            "en": "GPU {index}: {used} of {total} MiB are held by processes that cannot be seen from here "
            "(another container or user)",
            "zh": "GPU {index}：{total} MiB 显存里有 {used} MiB 被占用，但从这里看不到是谁（别的容器或用户）",
        },
        "end": {
            "en": "end them if they are yours (kill {pids}), or leave GPU {index} out with "
            "CUDA_VISIBLE_DEVICES",
            "zh": "如果是你的进程就结束它（kill {pids}），否则用 CUDA_VISIBLE_DEVICES 避开 GPU {index}",
        },
        "find": {
            "en": "look on the host (sudo fuser -v /dev/nvidia{index}), or leave GPU {index} out with "
            "CUDA_VISIBLE_DEVICES",
            "zh": "到宿主机上查（sudo fuser -v /dev/nvidia{index}），或用 CUDA_VISIBLE_DEVICES 避开 GPU "
            "{index}",
        },
    },
)
