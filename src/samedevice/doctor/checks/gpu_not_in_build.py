"""GPUs for which the installed torch has no kernels."""

from __future__ import annotations

import re
from collections.abc import Iterator

from packaging.version import Version

from samedevice.doctor.check import Check, Fault
from samedevice.doctor.facts import Facts, GpuFacts
from samedevice.doctor.tables import architectures
from samedevice.doctor.visible import places, seen_gpus
from samedevice.messages import Phrase


def _look(facts: Facts) -> Iterator[Fault]:
    if facts.torch is None or not facts.torch.cuda:
        return
    built, source = _built(facts)
    if not built:
        return
    without = [
        gpu for gpu in seen_gpus(facts) if gpu.capability is not None and not _runs(gpu.capability, built)
    ]
    for name in dict.fromkeys(gpu.name for gpu in without):
        gpus = [gpu for gpu in without if gpu.name == name]
        yield Fault(
            Phrase(
                "checks.gpu-not-in-build.none",
                gpu=name,
                places=places(gpus),
                capability="{}.{}".format(*(gpus[0].capability or ())),
                torch=facts.torch.version,
                built=", ".join(built),
            ),
            _repair(gpus[0]),
            "certain" if source == "torch" else "likely",
        )


def _built(facts: Facts) -> tuple[tuple[str, ...], str]:
    """`sm_90`, `compute_120`: as torch says; from the table of builds where it does not answer."""
    if facts.cuda is not None and facts.cuda.architectures:
        return facts.cuda.architectures, "torch"
    assert facts.torch is not None
    package = facts.package("torch")
    release = package.release if package is not None else None
    for row in architectures():
        if release is None or not facts.torch.cuda.startswith(row["cuda"]):
            continue
        if Version(row["since"]) <= Version(f"{release.major}.{release.minor}") <= Version(row["until"]):
            found = [f"sm_{each.replace('.', '')}" for each in row["built"]]
            return (*found, *([f"compute_{row['ptx'].replace('.', '')}"] if "ptx" in row else [])), "table"
    return (), ""


def _runs(capability: tuple[int, int], built: tuple[str, ...]) -> bool:
    """A kernel runs on its own major capability from its minor on; PTX is translated for anything newer."""
    for each in built:
        found = re.fullmatch(r"(sm|compute)_(\d+)(\d)[af]?", each)
        if found is None:
            continue
        own = int(found[2]), int(found[3])
        if each[-1] in "af" and each[-1].isalpha():
            if capability == own:
                return True
        elif found[1] == "compute":
            if capability >= own:
                return True
        elif capability[0] == own[0] and capability[1] >= own[1]:
            return True
    return False


def _repair(gpu: GpuFacts) -> Phrase:
    """A build that has it: the newest CUDA for new GPUs, the oldest for old ones."""
    assert gpu.capability is not None
    rows = [
        row
        for row in architectures()
        if any(_runs(gpu.capability, (f"sm_{each.replace('.', '')}",)) for each in row["built"])
    ]
    if not rows:
        return Phrase("checks.gpu-not-in-build.no-build", gpu=gpu.name)
    newest = max(rows, key=lambda row: (Version(row["until"]), row["cuda"]))
    return Phrase(
        "checks.gpu-not-in-build.install",
        torch=f"{newest['since']} to {newest['until']}",
        cuda=newest["cuda"].rstrip("."),
    )


CHECK = Check(
    code="SD304",
    name="gpu-not-in-build",
    title={"en": "this torch has no kernels for a GPU here", "zh": "这个 torch 里没有某块 GPU 能用的内核"},
    reads=("driver", "cuda"),
    sources=(
        "torch.cuda.get_arch_list()",
        "https://github.com/pytorch/pytorch/blob/main/RELEASE.md#pytorch-cuda-support-matrix",
        "https://docs.nvidia.com/cuda/cuda-c-programming-guide/#binary-compatibility",
    ),
    look=_look,
    sentences={
        "none": {
            "en": "GPU {places} ({gpu}) has compute capability {capability}; torch {torch} was built for "
            "{built}",
            "zh": "GPU {places}（{gpu}）的计算能力是 {capability}，而 torch {torch} 只为 {built} 编译",
        },
        "install": {
            "en": "install a build that has it, such as torch {torch} for CUDA {cuda}, or leave that GPU out "
            "with CUDA_VISIBLE_DEVICES",
            "zh": "换成包含它的版本，例如 CUDA {cuda} 的 torch {torch}；或者用 CUDA_VISIBLE_DEVICES "
            "把这块 GPU 排除在外",
        },
        "no-build": {
            "en": "no build of torch that is known here has {gpu}: build torch with "
            "TORCH_CUDA_ARCH_LIST, or leave "
            "that GPU out with CUDA_VISIBLE_DEVICES",
            "zh": "已知的 torch 版本都不支持 {gpu}：用 TORCH_CUDA_ARCH_LIST 自行编译，或用 "
            "CUDA_VISIBLE_DEVICES 排除它",
        },
    },
)
