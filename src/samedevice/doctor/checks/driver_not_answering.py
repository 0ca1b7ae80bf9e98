"""A driver that refuses to answer, by what it says instead."""

from __future__ import annotations

from collections.abc import Iterator

from samedevice.doctor.check import Check, Fault
from samedevice.doctor.facts import Facts
from samedevice.messages import Phrase

_SAID = (
    ("version mismatch", "mismatch"),
    ("couldn't communicate", "not-loaded"),
    ("Driver Not Loaded", "not-loaded"),
    ("GPU is lost", "lost"),
    ("Unable to determine the device handle", "lost"),
    ("Insufficient Permissions", "permission"),
    ("Unknown Error", "unknown"),
)
"""A part of what nvidia-smi or NVML says, and which case it is; the first that fits counts."""
_CASES = {
    "mismatch": ("checks.driver-not-answering.mismatch", "checks.driver-not-answering.mismatch-repair"),
    "not-loaded": ("checks.driver-not-answering.not-loaded", "checks.driver-not-answering.not-loaded-repair"),
    "lost": ("checks.driver-not-answering.lost", "checks.driver-not-answering.lost-repair"),
    "permission": ("checks.driver-not-answering.permission", "checks.driver-not-answering.permission-repair"),
    "unknown": ("checks.driver-not-answering.unknown", "checks.driver-not-answering.unknown-repair"),
    "other": ("checks.driver-not-answering.other", "checks.driver-not-answering.other-repair"),
}


def _look(facts: Facts) -> Iterator[Fault]:
    if facts.driver is not None and facts.driver.hangs:
        yield Fault(
            Phrase("checks.driver-not-answering.hangs"), Phrase("checks.driver-not-answering.hangs-repair")
        )
    said = facts.driver.trouble if facts.driver is not None else ""
    if not said or "No devices were found" in said:
        return
    case = next((case for sign, case in _SAID if sign in said), "other")
    reason, repair = _CASES[case]
    if case == "unknown" and facts.container:
        repair = "checks.driver-not-answering.in-container"
    yield Fault(Phrase(reason, said=said), Phrase(repair))


CHECK = Check(
    code="SD317",
    name="driver-not-answering",
    title={"en": "the NVIDIA driver does not answer", "zh": "NVIDIA 驱动没有响应"},
    reads=(),
    sources=(
        "nvidia-smi(1), return values",
        "https://github.com/NVIDIA/nvidia-docker/issues/1730: containers lose their GPUs",
        "https://github.com/microsoft/pai/pull/5452: driver/library version mismatch",
    ),
    look=_look,
    sentences={
        "hangs": {
            "en": "nvidia-smi was started and did not return: a GPU or the driver hangs",
            "zh": "nvidia-smi 启动后一直没有返回：有 GPU 或驱动卡死了",
        },
        "hangs-repair": {
            "en": "look at dmesg for NVRM and Xid lines and for processes in state D (ps -eo pid,stat,cmd); "
            "then reboot; a driver that wakes eight GPUs for each call gets quick by sudo nvidia-smi -pm 1",
            "zh": "在 dmesg 里查 NVRM 和 Xid，用 ps -eo pid,stat,cmd 查 D 状态的进程，然后重启；"
            "若只是每次都要唤醒多块 GPU，sudo nvidia-smi -pm 1 可以加快",
        },
        "mismatch": {
            "en": "the loaded kernel module and the driver's libraries are of two releases: {said}",
            "zh": "内核里加载的驱动模块和用户态驱动库不是同一个版本：{said}",
        },
        "mismatch-repair": {
            "en": "reboot, or unload and load the module (sudo rmmod nvidia_uvm nvidia_drm "
            "nvidia_modeset nvidia, then "
            "sudo modprobe nvidia); a container must not bring its own libcuda",
            "zh": "重启机器，或卸载再加载模块（sudo rmmod nvidia_uvm nvidia_drm nvidia_modeset nvidia，"
            "然后 sudo modprobe nvidia）；容器里不要自带 libcuda",
        },
        "not-loaded": {
            "en": "the driver's kernel module is not loaded: {said}",
            "zh": "驱动的内核模块没有加载：{said}",
        },
        "not-loaded-repair": {
            "en": "sudo modprobe nvidia; if that fails, install the driver again for the running kernel "
            "(uname -r, "
            "dkms status), and look for Secure Boot or nouveau in dmesg",
            "zh": "sudo modprobe nvidia；若失败，为当前内核重装驱动（看 uname -r、dkms status），并在 "
            "dmesg 里查 Secure Boot 或 nouveau",
        },
        "lost": {
            "en": "a GPU has fallen off the bus: {said}",
            "zh": "有一块 GPU 从总线上掉了：{said}",
        },
        "lost-repair": {
            "en": "reboot; look for Xid 79 in dmesg; if it comes back: power supply, riser, seat, heat",
            "zh": "重启机器；在 dmesg 里查 Xid 79；若反复出现，检查供电、转接线、插槽接触和散热",
        },
        "permission": {
            "en": "this user may not ask the driver: {said}",
            "zh": "当前用户没有访问驱动的权限：{said}",
        },
        "permission-repair": {
            "en": "look at the rights of /dev/nvidia* and at the groups of this user",
            "zh": "检查 /dev/nvidia* 的权限和当前用户所属的组",
        },
        "unknown": {
            "en": "the driver's library reached no GPU: {said}",
            "zh": "驱动库访问不到任何 GPU：{said}",
        },
        "unknown-repair": {
            "en": "look at dmesg for NVRM and Xid lines, and reboot",
            "zh": "在 dmesg 里查 NVRM 和 Xid，然后重启",
        },
        "in-container": {
            "en": "the container lost its devices (systemctl daemon-reload on the host does that): start "
            "it again, "
            "with --device for each /dev/nvidia*, or with Docker's cgroup driver cgroupfs",
            "zh": "容器丢失了 GPU 设备（宿主机执行 systemctl daemon-reload 就会这样）：重启容器，用 "
            "--device 逐个传入 /dev/nvidia*，或让 Docker 用 cgroupfs 驱动",
        },
        "other": {
            "en": "nvidia-smi failed: {said}",
            "zh": "nvidia-smi 执行失败：{said}",
        },
        "other-repair": {
            "en": "look at dmesg for NVRM and Xid lines",
            "zh": "在 dmesg 里查 NVRM 和 Xid",
        },
    },
)
