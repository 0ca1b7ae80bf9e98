"""Numbers that mean other GPUs for CUDA than for nvidia-smi."""

from __future__ import annotations

from collections.abc import Iterator

from samedevice.doctor.check import Check, Fault
from samedevice.doctor.facts import Facts
from samedevice.doctor.visible import entries
from samedevice.messages import Phrase


def _look(facts: Facts) -> Iterator[Fault]:
    names = {gpu.name for gpu in facts.gpus or ()}
    numbers = [entry for entry in entries(facts) if entry.isdigit()]
    if len(names) < 2 or not numbers or facts.variables.get("CUDA_DEVICE_ORDER") == "PCI_BUS_ID":
        return
    yield Fault(
        Phrase(
            "checks.device-order.fastest", setting=",".join(entries(facts)), names=", ".join(sorted(names))
        ),
        Phrase("checks.device-order.export"),
        "likely",
    )


CHECK = Check(
    code="SD307",
    name="device-order",
    title={
        "en": "CUDA numbers these GPUs in another order than nvidia-smi",
        "zh": "CUDA 给 GPU 编号的顺序与 nvidia-smi 不同",
    },
    reads=("driver", "gpus"),
    sources=(
        "https://docs.nvidia.com/cuda/cuda-c-programming-guide/#cuda-environment-variables: "
        "CUDA_DEVICE_ORDER",
    ),
    look=_look,
    sentences={
        "fastest": {
            "en": "the GPUs are not alike ({names}), and CUDA counts the fastest first: {setting} in "
            "CUDA_VISIBLE_DEVICES may be another GPU than nvidia-smi shows under that number",
            "zh": "这些 GPU 型号不同（{names}），CUDA 默认从最快的开始编号：CUDA_VISIBLE_DEVICES 里的 "
            "{setting} "
            "可能不是 nvidia-smi 中同号的那块",
        },
        "export": {"en": "export CUDA_DEVICE_ORDER=PCI_BUS_ID", "zh": "export CUDA_DEVICE_ORDER=PCI_BUS_ID"},
    },
)
