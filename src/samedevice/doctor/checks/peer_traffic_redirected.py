"""Traffic between GPUs that the IOMMU or the bridges' access control sends through the host."""

from __future__ import annotations

from collections.abc import Iterator

from samedevice.doctor.check import Check, Fault
from samedevice.doctor.facts import Facts
from samedevice.messages import Phrase


def _look(facts: Facts) -> Iterator[Fault]:
    links = facts.links or {}
    if not links or all(link.startswith("NV") for link in links.values()):
        return
    translated = {bus: kind for bus, kind in (facts.iommu or {}).items() if kind.startswith("DMA")}
    peers = facts.peers or {}
    if translated and "OK" in peers.values():
        bus, kind = min(translated.items())
        yield Fault(
            Phrase("checks.peer-traffic-redirected.iommu", bus=bus, kind=kind),
            Phrase("checks.peer-traffic-redirected.passthrough"),
            "likely",
        )
    switched = any(link in ("PIX", "PXB") for link in links.values())  # else the host is on the way anyhow
    if facts.redirects and switched and "OK" in peers.values():
        yield Fault(
            Phrase("checks.peer-traffic-redirected.acs", bridges=", ".join(facts.redirects[:3])),
            Phrase("checks.peer-traffic-redirected.disable"),
            "likely",
        )


CHECK = Check(
    code="SD311",
    name="peer-traffic-redirected",
    title={
        "en": "copies between GPUs go through the host: slow, or wrong, or they hang",
        "zh": "GPU 之间的拷贝被改道经过主机：可能变慢、出错或卡死",
    },
    reads=("driver", "links", "peers", "iommu"),
    sources=(
        "https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/troubleshooting.html: PCI Access "
        "Control Services",
        "https://docs.nvidia.com/nim/maxine/lipsync/latest/advanced-usage/multi-gpu.html: iommu=pt",
        "Linux Documentation/ABI/testing/sysfs-kernel-iommu_groups",
    ),
    look=_look,
    sentences={
        "iommu": {
            "en": "the IOMMU translates what GPU {bus} sends (domain {kind}); on bare metal CUDA "
            "supports peer copies "
            "over PCIe only with it off or in passthrough",
            "zh": "IOMMU 会转换 GPU {bus} 发出的访问（域类型 {kind}）；在物理机上，CUDA 只支持关闭 IOMMU "
            "或直通模式下的 PCIe 点对点拷贝",
        },
        "acs": {
            "en": "the access control of PCI bridges ({bridges}) redirects traffic between devices",
            "zh": "PCI 桥（{bridges}）的 ACS 会把设备之间的流量改道",
        },
        "passthrough": {
            "en": "boot with iommu=pt, or switch it off in the BIOS (not inside of a virtual machine); "
            "until then NCCL_P2P_DISABLE=1; samedevice doctor --gpu-test says whether copies arrive",
            "zh": "启动参数加 iommu=pt，或在 BIOS 中关闭（虚拟机内不适用）；在此之前可设 NCCL_P2P_DISABLE=1；"
            "用 samedevice doctor --gpu-test 检查数据是否完好到达",
        },
        "disable": {
            "en": "switch ACS off on these bridges (BIOS, or setpci as NCCL's page says); samedevice "
            "doctor --gpu-test "
            "says whether copies arrive",
            "zh": "在这些桥上关闭 ACS（BIOS，或按 NCCL 文档用 setpci）；用 samedevice doctor --gpu-test "
            "检查数据是否完好到达",
        },
    },
)
