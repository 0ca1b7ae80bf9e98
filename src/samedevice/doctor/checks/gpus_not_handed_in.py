"""GPUs on the bus that no driver, or no container, hands to programs."""

from __future__ import annotations

from collections.abc import Iterator

from samedevice.doctor.check import Check, Fault
from samedevice.doctor.facts import Facts
from samedevice.messages import Phrase


def _look(facts: Facts) -> Iterator[Fault]:
    if not facts.boards or facts.nodes is None or any(name[6:7].isdigit() for name in facts.nodes):
        return
    if facts.gpus or facts.driver is not None:
        return
    if facts.torch is not None and not facts.torch.cuda:  # nothing here would use them
        return
    if facts.container and facts.torch is None:
        return
    if facts.container:
        yield Fault(
            Phrase("checks.gpus-not-handed-in.container", boards=facts.boards),
            Phrase("checks.gpus-not-handed-in.container-repair"),
        )
    else:
        yield Fault(
            Phrase("checks.gpus-not-handed-in.machine", boards=facts.boards),
            Phrase("checks.gpus-not-handed-in.machine-repair"),
        )


CHECK = Check(
    code="SD318",
    name="gpus-not-handed-in",
    title={"en": "the GPUs of the machine are out of reach", "zh": "机器上有 GPU，但程序够不着"},
    reads=(),
    sources=(
        "pytorch/pytorch README, Docker Image: docker run --gpus all",
        "/sys/bus/pci/devices: vendor 0x10de, class 0x03; /dev/nvidia*",
    ),
    look=_look,
    sentences={
        "container": {
            "en": "the machine has NVIDIA GPUs ({boards}), and none is handed into this container: no "
            "/dev/nvidia0, "
            "no nvidia-smi",
            "zh": "宿主机有 {boards} 块 NVIDIA GPU，但一块都没有传进这个容器：没有 /dev/nvidia0，也没有 "
            "nvidia-smi",
        },
        "container-repair": {
            "en": "start it with docker run --gpus all (nvidia-container-toolkit on the host), or ask for "
            "nvidia.com/gpu in Kubernetes",
            "zh": "用 docker run --gpus all 启动（宿主机需装 nvidia-container-toolkit）；Kubernetes "
            "中申请 nvidia.com/gpu",
        },
        "machine": {
            "en": "the machine has NVIDIA GPUs ({boards}) and no NVIDIA driver",
            "zh": "机器上有 {boards} 块 NVIDIA GPU，但没有装 NVIDIA 驱动",
        },
        "machine-repair": {
            "en": "install the driver of your distribution (Ubuntu: sudo ubuntu-drivers install), then "
            "reboot",
            "zh": "安装发行版提供的驱动（Ubuntu：sudo ubuntu-drivers install），然后重启",
        },
    },
)
