"""Tensor parallelism over GPUs that nothing fast joins."""

from __future__ import annotations

from collections.abc import Iterator

from samedevice.doctor.check import Check, Fault
from samedevice.doctor.facts import Facts
from samedevice.doctor.visible import seen_gpus
from samedevice.messages import Phrase


def _look(facts: Facts) -> Iterator[Fault]:
    seen = {gpu.index for gpu in seen_gpus(facts)}
    uses = facts.project.tensor_parallel
    if facts.links is None or not uses or len(seen) < 2:
        return
    slow = {
        pair: link for pair, link in facts.links.items() if set(pair) <= seen and not link.startswith("NV")
    }
    if not slow:
        return
    (one, other), link = min(slow.items())
    yield Fault(
        Phrase(
            "checks.no-nvlink-for-tensor-parallel.slow",
            use=uses[0].what,
            place=uses[0].place,
            one=one,
            other=other,
            link=link,
        ),
        Phrase("checks.no-nvlink-for-tensor-parallel.pipeline"),
        "likely",
    )


CHECK = Check(
    code="SD310",
    name="no-nvlink-for-tensor-parallel",
    title={"en": "tensor parallel without NVLink", "zh": "没有 NVLink 却用了张量并行"},
    reads=("driver", "links", "project"),
    sources=(
        "nvidia-smi(1), topo -m",
        "https://www.mintlify.com/vllm-project/vllm/features/tensor-parallelism: without NVLink, pipeline",
    ),
    look=_look,
    sentences={
        "slow": {
            "en": "{place} has {use}: every layer exchanges activations, and GPU {one} and {other} are "
            "joined "
            "by {link} alone",
            "zh": "{place} 里有 {use}：每一层都要交换激活值，而 GPU {one} 与 {other} 之间只有 {link} 连接",
        },
        "pipeline": {
            "en": "use pipeline parallel (or device_map) between GPUs without NVLink, tensor parallel "
            "among those "
            "that NVLink joins (nvidia-smi topo -m)",
            "zh": "没有 NVLink 的 GPU 之间用流水线并行（或 device_map），张量并行只放在有 NVLink 的 GPU "
            "之间（见 nvidia-smi topo -m）",
        },
    },
)
