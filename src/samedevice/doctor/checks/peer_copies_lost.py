"""Drivers that offer peer access which the boards do not have: copies arrive wrong without an error."""

from __future__ import annotations

from collections.abc import Iterator

from samedevice.doctor.check import Check, Fault
from samedevice.doctor.facts import Facts
from samedevice.doctor.tables import bad_drivers
from samedevice.doctor.visible import seen_gpus, version_tuple
from samedevice.messages import Phrase


def _look(facts: Facts) -> Iterator[Fault]:
    if facts.driver is None or not facts.driver.version:
        return
    own = version_tuple(facts.driver.version)
    for row in bad_drivers():
        gpus = [gpu for gpu in seen_gpus(facts) if row["gpus"] in gpu.name]
        offered = any(status == "OK" for status in (facts.peers or {}).values())
        if len(gpus) > 1 and offered and version_tuple(row["since"]) <= own < version_tuple(row["until"]):
            yield Fault(
                Phrase("checks.peer-copies-lost.lost", driver=facts.driver.version, gpu=gpus[0].name),
                Phrase("checks.peer-copies-lost.newer", until=row["until"]),
            )


CHECK = Check(
    code="SD312",
    name="peer-copies-lost",
    title={
        "en": "this driver loses copies between these GPUs without an error",
        "zh": "这个驱动会在 GPU 之间的拷贝中丢数据，而且不报错",
    },
    reads=("driver", "peers"),
    sources=("https://github.com/tinygrad/open-gpu-kernel-modules (README)", "drivers.toml, [[bad]]"),
    look=_look,
    sentences={
        "lost": {
            "en": "driver {driver} offers peer access between {gpu}s, which they do not have: what is "
            "copied from "
            "GPU to GPU arrives wrong",
            "zh": "驱动 {driver} 声称 {gpu} 之间可以点对点访问，而硬件并不具备：GPU 间拷贝过去的数据是错的",
        },
        "newer": {
            "en": "install driver {until} or newer; until then NCCL_P2P_DISABLE=1, and no .to() from GPU "
            "to GPU; "
            "samedevice doctor --gpu-test shows it",
            "zh": "升级到 {until} 或更新的驱动；在此之前设 NCCL_P2P_DISABLE=1，并避免 GPU 之间直接 .to()；"
            "samedevice doctor --gpu-test 可以验证",
        },
    },
)
