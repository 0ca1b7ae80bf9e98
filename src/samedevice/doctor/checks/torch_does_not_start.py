"""A torch that cannot be imported, or whose CUDA does not start, for a reason that no other check names."""

from __future__ import annotations

from collections.abc import Iterator

from samedevice.doctor.check import Check, Fault
from samedevice.doctor.facts import Facts
from samedevice.messages import Phrase

_OF_OTHERS = (
    "driver on your system is too old",
    "Error 802",
    "Error 804",
    "Error 34",
    "No CUDA GPUs are available",
)
"""What another check explains."""
_SIGNS = ("Error 803", "CUDA unknown error", "Unexpected error from cudaGetDeviceCount")


def _look(facts: Facts) -> Iterator[Fault]:
    cuda = facts.cuda
    if cuda is None or facts.torch is None:
        return
    said = cuda.trouble or next((each for each in cuda.warnings if any(sign in each for sign in _SIGNS)), "")
    if not said or any(sign in said for sign in _OF_OTHERS):
        return
    if facts.driver is not None and facts.driver.trouble:
        return
    if "CUDA unknown error" in said and "nvidia-uvm" not in (facts.nodes or ("nvidia-uvm",)):
        repair = Phrase("checks.torch-does-not-start.uvm")
    elif "Error 803" in said:
        repair = Phrase("checks.torch-does-not-start.reboot")
    elif "shared object" in said or "undefined symbol" in said:
        repair = Phrase("checks.torch-does-not-start.again", version=facts.torch.version.partition("+")[0])
    else:
        repair = Phrase("checks.torch-does-not-start.alone")
    yield Fault(Phrase("checks.torch-does-not-start.said", torch=facts.torch.version, said=said), repair)


CHECK = Check(
    code="SD326",
    name="torch-does-not-start",
    title={"en": "torch or its CUDA part does not start", "zh": "torch 或它的 CUDA 部分启动不了"},
    reads=("cuda",),
    sources=(
        "torch/cuda/__init__.py",
        "https://github.com/NVIDIA/nvidia-docker/issues/1256: error 803",
    ),
    look=_look,
    sentences={
        "said": {
            "en": "torch {torch} in a process of its own: {said}",
            "zh": "单独起一个进程运行 torch {torch}：{said}",
        },
        "uvm": {
            "en": "/dev/nvidia-uvm is missing: sudo nvidia-modprobe -u -c=0 (in a container: hand it in "
            "as well)",
            "zh": "缺少 /dev/nvidia-uvm：sudo nvidia-modprobe -u -c=0（容器里则要把它一并传入）",
        },
        "reboot": {
            "en": "the driver's library and its kernel module are of two releases: reboot; a container "
            "must not "
            "bring its own libcuda",
            "zh": "驱动库与内核模块版本不一致：重启机器；容器里不要自带 libcuda",
        },
        "again": {
            "en": "install torch again with what it needs: pip install --force-reinstall torch=={version}",
            "zh": "连同依赖重装 torch：pip install --force-reinstall torch=={version}",
        },
        "alone": {
            "en": 'try it alone: python -c "import torch; torch.cuda.init()"',
            "zh": '先单独试：python -c "import torch; torch.cuda.init()"',
        },
    },
)
