"""A CUDA compiler of another major release than torch, where extensions are built at run time."""

from __future__ import annotations

from collections.abc import Iterator

from samedevice.doctor.check import Check, Fault
from samedevice.doctor.facts import Facts
from samedevice.messages import Phrase

_BUILDERS = ("deepspeed", "flash-attn", "apex", "transformer-engine", "detectron2")
"""Packages that compile CUDA code when they are installed or first used."""


def _look(facts: Facts) -> Iterator[Fault]:
    torch, toolkit = facts.torch, facts.toolkit
    builders = [name for name in _BUILDERS if facts.package(name) is not None]
    if torch is None or not torch.cuda or not toolkit or not builders:
        return
    if toolkit.partition(".")[0] == torch.cuda.partition(".")[0]:
        return
    values = {"toolkit": toolkit, "cuda": torch.cuda, "torch": torch.version, "name": builders[0]}
    yield Fault(
        Phrase("checks.toolkit-differs.differs", **values),
        Phrase("checks.toolkit-differs.home", cuda=torch.cuda),
    )


CHECK = Check(
    code="SD324",
    name="toolkit-differs",
    title={
        "en": "the CUDA compiler is of another release than torch",
        "zh": "CUDA 编译器与 torch 的 CUDA 版本不同",
    },
    reads=("packages",),
    sources=("torch/utils/cpp_extension.py, CUDA_MISMATCH_MESSAGE",),
    look=_look,
    sentences={
        "differs": {
            "en": "nvcc is CUDA {toolkit}, torch {torch} is CUDA {cuda}, and {name} compiles code for it: "
            "'The detected CUDA version mismatches'",
            "zh": "nvcc 是 CUDA {toolkit}，torch {torch} 是 CUDA {cuda}，而 {name} 要为它编译代码：会报 "
            "The detected CUDA version mismatches",
        },
        "home": {
            "en": "install the toolkit of CUDA {cuda} and point CUDA_HOME to it",
            "zh": "安装 CUDA {cuda} 的 toolkit，并把 CUDA_HOME 指向它",
        },
    },
)
