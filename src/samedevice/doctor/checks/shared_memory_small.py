"""A `/dev/shm` that is too small for NCCL or for the workers of loaders."""

from __future__ import annotations

from collections.abc import Iterator

from samedevice.doctor.check import Check, Fault
from samedevice.doctor.facts import Facts
from samedevice.doctor.visible import seen_gpus
from samedevice.messages import Bytes, Phrase

_LEAST = 1 << 30
"""What NCCL's page gives a container."""


def _look(facts: Facts) -> Iterator[Fault]:
    size = facts.shared_memory
    if size is None or size >= _LEAST:
        return
    project = facts.project
    if project.workers:
        place = project.workers[0].place
        reason = Phrase("checks.shared-memory-small.workers", size=Bytes(size), place=place)
    elif len(seen_gpus(facts)) > 1:
        reason = Phrase("checks.shared-memory-small.nccl", size=Bytes(size))
    else:
        return
    yield Fault(
        reason,
        Phrase(
            "checks.shared-memory-small.container" if facts.container else "checks.shared-memory-small.mount"
        ),
        "certain" if size <= 64 << 20 else "likely",
    )


CHECK = Check(
    code="SD316",
    name="shared-memory-small",
    title={"en": "/dev/shm is too small", "zh": "/dev/shm 太小"},
    reads=("memory",),
    sources=(
        "https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/troubleshooting.html: Sharing Data",
        "pytorch/pytorch README, Docker Image: --ipc=host or --shm-size",
    ),
    look=_look,
    sentences={
        "workers": {
            "en": "/dev/shm has {size}, and the loader at {place} hands batches over in it: its workers "
            "die with a bus error",
            "zh": "/dev/shm 只有 {size}，而 {place} 的 DataLoader 用它传递批数据：worker 会以 bus error 退出",
        },
        "nccl": {
            "en": "/dev/shm has {size}; NCCL exchanges data between processes in it",
            "zh": "/dev/shm 只有 {size}，而 NCCL 在进程之间靠它交换数据",
        },
        "container": {
            "en": "start the container with --ipc=host or --shm-size=8g; in Kubernetes mount an emptyDir "
            "with "
            "medium: Memory at /dev/shm",
            "zh": "启动容器时加 --ipc=host 或 --shm-size=8g；Kubernetes 中把 medium: Memory 的 emptyDir "
            "挂到 /dev/shm",
        },
        "mount": {
            "en": "sudo mount -o remount,size=8G /dev/shm",
            "zh": "sudo mount -o remount,size=8G /dev/shm",
        },
    },
)
