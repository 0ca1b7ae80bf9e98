"""NVSwitch machines whose fabric is not up: CUDA does not start."""

from __future__ import annotations

from collections.abc import Iterator

from samedevice.doctor.check import Check, Fault
from samedevice.doctor.facts import Facts
from samedevice.doctor.visible import places
from samedevice.messages import Phrase


def _look(facts: Facts) -> Iterator[Fault]:
    waiting = [
        gpu for gpu in facts.gpus or () if gpu.fabric and gpu.fabric not in ("Completed", "Not Supported")
    ]
    failed = [
        gpu
        for gpu in facts.gpus or ()
        if gpu.fabric == "Completed" and gpu.fabric_status and gpu.fabric_status != "Success"
    ]
    for gpus in (waiting, failed):
        if gpus:
            state = f"{gpus[0].fabric}, {gpus[0].fabric_status}".rstrip(", ")
            yield Fault(
                Phrase("checks.fabric-not-ready.state", places=places(gpus), state=state),
                Phrase("checks.fabric-not-ready.start", driver=facts.driver.version if facts.driver else "?"),
            )
    said = " ".join((*facts.cuda.warnings, facts.cuda.trouble)) if facts.cuda is not None else ""
    if not waiting and not failed and "Error 802" in said:
        yield Fault(
            Phrase("checks.fabric-not-ready.torch"),
            Phrase("checks.fabric-not-ready.start", driver=facts.driver.version if facts.driver else "?"),
        )


CHECK = Check(
    code="SD319",
    name="fabric-not-ready",
    title={
        "en": "the NVSwitch fabric is not ready, and CUDA does not start",
        "zh": "NVSwitch 互联没有就绪，CUDA 无法启动",
    },
    reads=("driver", "gpus"),
    sources=(
        "https://github.com/NVIDIA/NVSentinel/issues/883: the states of the fabric",
        "https://github.com/pytorch/pytorch/issues/35710: error 802",
        "https://github.com/huggingface/huggingface_hub/issues/4134: fabric state on H200",
    ),
    look=_look,
    sentences={
        "state": {
            "en": "the fabric of GPU {places} is in the state {state}: CUDA fails with error 802, system "
            "not yet initialized",
            "zh": "GPU {places} 的互联状态是 {state}：CUDA 会报错误 802（system not yet initialized）",
        },
        "torch": {
            "en": "torch met error 802, system not yet initialized",
            "zh": "torch 遇到错误 802（system not yet initialized）",
        },
        "start": {
            "en": "sudo systemctl restart nvidia-fabricmanager on the host; it must be of the driver's "
            "very release, {driver}",
            "zh": "在宿主机上 sudo systemctl restart nvidia-fabricmanager；"
            "它的版本必须与驱动完全一致（{driver}）",
        },
    },
)
