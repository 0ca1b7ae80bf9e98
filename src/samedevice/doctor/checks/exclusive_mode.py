"""Compute modes that keep programs off a GPU."""

from __future__ import annotations

from collections.abc import Iterator

from samedevice.doctor.check import Check, Fault
from samedevice.doctor.facts import Facts
from samedevice.doctor.visible import seen_gpus
from samedevice.messages import Phrase


def _look(facts: Facts) -> Iterator[Fault]:
    for gpu in seen_gpus(facts):
        if gpu.compute_mode == "Prohibited":
            reason = Phrase("checks.exclusive-mode.prohibited", index=gpu.index)
        elif gpu.compute_mode.startswith("Exclusive") and gpu.processes:
            first = gpu.processes[0]
            holder = f"{first.name or '?'} (pid {first.pid})"
            reason = Phrase(
                "checks.exclusive-mode.taken", index=gpu.index, mode=gpu.compute_mode, holder=holder
            )
        else:
            continue
        yield Fault(reason, Phrase("checks.exclusive-mode.default", index=gpu.index))


CHECK = Check(
    code="SD321",
    name="exclusive-mode",
    title={"en": "a GPU does not take another program", "zh": "GPU 的计算模式不允许再有程序使用"},
    reads=("driver", "gpus"),
    sources=(
        "nvidia-smi(1), Compute Mode",
        "CUDA error 46, all CUDA-capable devices are busy or unavailable",
    ),
    look=_look,
    sentences={
        "prohibited": {
            "en": "the compute mode of GPU {index} is Prohibited: CUDA refuses every program on it",
            "zh": "GPU {index} 的计算模式是 Prohibited：CUDA 拒绝任何程序",
        },
        "taken": {
            "en": "the compute mode of GPU {index} is {mode}, and {holder} has it: others fail with "
            "'CUDA-capable devices are busy or unavailable'",
            "zh": "GPU {index} 的计算模式是 {mode}，已被 {holder} 占住：其他程序会报 CUDA-capable "
            "devices are busy or unavailable",
        },
        "default": {
            "en": "sudo nvidia-smi -i {index} -c DEFAULT, or choose another GPU",
            "zh": "sudo nvidia-smi -i {index} -c DEFAULT，或换一块 GPU",
        },
    },
)
