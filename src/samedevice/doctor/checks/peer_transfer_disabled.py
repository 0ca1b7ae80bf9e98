"""Variables that keep NCCL off NVLink."""

from __future__ import annotations

from collections.abc import Iterator

from samedevice.doctor.check import Check, Fault
from samedevice.doctor.facts import Facts
from samedevice.doctor.visible import seen_gpus
from samedevice.messages import Phrase


def _look(facts: Facts) -> Iterator[Fault]:
    off = {"NCCL_P2P_DISABLE": ("1",), "NCCL_P2P_LEVEL": ("LOC", "0")}
    seen = {gpu.index for gpu in seen_gpus(facts)}
    joined = any(link.startswith("NV") and set(pair) <= seen for pair, link in (facts.links or {}).items())
    for name, values in off.items():
        if joined and facts.variables.get(name) in values:
            yield Fault(
                Phrase("checks.peer-transfer-disabled.off", name=name, value=facts.variables[name]),
                Phrase("checks.peer-transfer-disabled.unset", name=name),
                "likely",
            )


CHECK = Check(
    code="SD325",
    name="peer-transfer-disabled",
    title={"en": "NCCL is told not to use NVLink", "zh": "NCCL 被禁止使用 NVLink"},
    reads=("driver", "links", "variables"),
    sources=(
        "https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html: NCCL_P2P_DISABLE, "
        "NCCL_P2P_LEVEL",
    ),
    look=_look,
    sentences={
        "off": {
            "en": "{name}={value} keeps NCCL off the NVLink between these GPUs; it is a workaround for "
            "machines without",
            "zh": "{name}={value} 让 NCCL 绕开这些 GPU 之间的 NVLink；它本是给没有 NVLink 的机器用的权宜之计",
        },
        "unset": {"en": "unset {name}", "zh": "unset {name}"},
    },
)
