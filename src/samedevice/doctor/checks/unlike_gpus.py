"""GPUs that are not alike, under a launcher that gives each the same share."""

from __future__ import annotations

from collections.abc import Iterator

from samedevice.doctor.check import Check, Fault
from samedevice.doctor.facts import Facts
from samedevice.doctor.visible import places, seen_gpus
from samedevice.messages import Phrase


def _look(facts: Facts) -> Iterator[Fault]:
    seen = seen_gpus(facts)
    uses = (*facts.project.launchers, *facts.project.tensor_parallel)
    kinds = {gpu.name: [each for each in seen if each.name == gpu.name] for gpu in seen}
    if len(kinds) < 2 or not uses:
        return
    listed = "; ".join(f"{places(gpus)}: {name}, {gpus[0].memory_mib} MiB" for name, gpus in kinds.items())
    most = max(kinds.values(), key=len)
    yield Fault(
        Phrase("checks.unlike-gpus.unlike", kinds=listed, place=uses[0].place),
        Phrase("checks.unlike-gpus.choose", places=places(most).replace(" ", "")),
        "likely",
    )


CHECK = Check(
    code="SD309",
    name="unlike-gpus",
    title={"en": "unlike GPUs under one launcher", "zh": "同一次启动里混用了不同型号的 GPU"},
    reads=("driver", "gpus", "project"),
    sources=("torch/nn/parallel/distributed.py: each rank holds the same replica and the same batch",),
    look=_look,
    sentences={
        "unlike": {
            "en": "{place} gives each GPU the same share, and they are not alike ({kinds}): the smallest "
            "memory "
            "sets the limit and the slowest the pace",
            "zh": "{place} 给每块 GPU 同样的份额，但它们并不相同（{kinds}）：显存最小的决定上限，"
            "最慢的决定速度",
        },
        "choose": {
            "en": "launch on alike GPUs: CUDA_DEVICE_ORDER=PCI_BUS_ID CUDA_VISIBLE_DEVICES={places}",
            "zh": "只在同型号的 GPU 上启动：CUDA_DEVICE_ORDER=PCI_BUS_ID CUDA_VISIBLE_DEVICES={places}",
        },
    },
)
