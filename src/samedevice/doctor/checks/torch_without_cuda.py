"""A torch without CUDA beside GPUs of NVIDIA."""

from __future__ import annotations

from collections.abc import Iterator

from samedevice.doctor.check import Check, Fault
from samedevice.doctor.facts import Facts
from samedevice.messages import Phrase

_KINDS = {
    "cpu": "checks.torch-without-cuda.cpu",
    "rocm": "checks.torch-without-cuda.rocm",
    "xpu": "checks.torch-without-cuda.xpu",
}


def _look(facts: Facts) -> Iterator[Fault]:
    torch = facts.torch
    gpus = len(facts.gpus or ())
    if torch is None or torch.cuda or not gpus:
        return
    kind = "rocm" if torch.hip or "+rocm" in torch.version else "xpu" if "+xpu" in torch.version else "cpu"
    yield Fault(
        Phrase(_KINDS[kind], torch=torch.version, gpus=gpus),
        Phrase("checks.torch-without-cuda.install", version=torch.version.partition("+")[0]),
    )


CHECK = Check(
    code="SD302",
    name="torch-without-cuda",
    title={"en": "this torch cannot use the GPUs of the machine", "zh": "这个 torch 用不上机器里的 GPU"},
    reads=("driver", "gpus"),
    sources=("torch/version.py: `cuda` and `hip`", "https://pytorch.org/get-started/locally/"),
    look=_look,
    sentences={
        "cpu": {
            "en": "torch {torch} was built without CUDA, and the machine has NVIDIA GPUs: {gpus}",
            "zh": "torch {torch} 是不带 CUDA 的版本，而机器上有 {gpus} 块 NVIDIA GPU",
        },
        "rocm": {
            "en": "torch {torch} was built for AMD's ROCm, and the machine has NVIDIA GPUs: {gpus}",
            "zh": "torch {torch} 是为 AMD ROCm 编译的，而机器上有 {gpus} 块 NVIDIA GPU",
        },
        "xpu": {
            "en": "torch {torch} was built for Intel's GPUs, and the machine has NVIDIA GPUs: {gpus}",
            "zh": "torch {torch} 是为 Intel GPU 编译的，而机器上有 {gpus} 块 NVIDIA GPU",
        },
        "install": {
            "en": "pip uninstall torch, then pip install torch=={version} from PyPI or from the index "
            "for your CUDA at https://download.pytorch.org/whl",
            "zh": "先 pip uninstall torch，再从 PyPI 或 https://download.pytorch.org/whl 中与 CUDA "
            "对应的源安装 torch=={version}",
        },
    },
)
