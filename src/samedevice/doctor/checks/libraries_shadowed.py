"""LD_LIBRARY_PATH that puts other CUDA libraries in front of those that came with torch or the driver."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePosixPath

from samedevice.doctor.check import Check, Fault
from samedevice.doctor.facts import Facts
from samedevice.messages import Phrase


def _look(facts: Facts) -> Iterator[Fault]:
    own = facts.torch.libraries if facts.torch is not None and facts.torch.cuda else {}
    shadowed: dict[str, list[str]] = {}
    for path, (name, target) in facts.searched.items():
        folder = str(PurePosixPath(path).parent)
        if name == "libcuda.so.1" and "stubs" in PurePosixPath(path).parts:
            yield Fault(
                Phrase("checks.libraries-shadowed.stub", folder=folder),
                Phrase("checks.libraries-shadowed.without", folder=folder),
            )
        elif name == "libcuda.so.1" and "compat" in PurePosixPath(path).parts:
            consumer = next((gpu.name for gpu in facts.gpus or () if "GeForce" in gpu.name), None)
            if consumer is not None:
                yield Fault(
                    Phrase("checks.libraries-shadowed.compat", folder=folder, gpu=consumer),
                    Phrase("checks.libraries-shadowed.without", folder=folder),
                )
        elif name in own and target != own[name]:
            shadowed.setdefault(folder, []).append(name)
    for folder, names in shadowed.items():
        yield Fault(
            Phrase("checks.libraries-shadowed.shadowed", folder=folder, names=", ".join(names[:4])),
            Phrase("checks.libraries-shadowed.without", folder=folder),
            "likely",
        )


CHECK = Check(
    code="SD315",
    name="libraries-shadowed",
    title={
        "en": "LD_LIBRARY_PATH puts other CUDA libraries in front",
        "zh": "LD_LIBRARY_PATH 让别的 CUDA 库排在了前面",
    },
    reads=("variables",),
    sources=(
        "https://github.com/pytorch/pytorch/pull/174320: a system's libcublasLt in front of the one "
        "beside torch",
        "https://github.com/pytorch/pytorch/issues/80637: cuDNN from LD_LIBRARY_PATH",
        "https://docs.nvidia.com/deploy/cuda-compatibility/forward-compatibility.html: data-centre GPUs only",
    ),
    look=_look,
    sentences={
        "shadowed": {
            "en": "{folder} in LD_LIBRARY_PATH has {names}, which torch brings itself: mixed releases "
            "end in undefined "
            "symbols or in CUBLAS and cuDNN errors",
            "zh": "LD_LIBRARY_PATH 中的 {folder} 里有 {names}，而 torch 自带这些库：版本一混就会出现 "
            "undefined symbol 或 CUBLAS、cuDNN 报错",
        },
        "stub": {
            "en": "{folder} in LD_LIBRARY_PATH holds the stub of the driver, which is for linking alone "
            "(error 34)",
            "zh": "LD_LIBRARY_PATH 中的 {folder} 是只供链接用的驱动桩库（错误 34）",
        },
        "compat": {
            "en": "{folder} in LD_LIBRARY_PATH holds the driver for forward compatibility, which {gpu} "
            "does not "
            "support (error 804)",
            "zh": "LD_LIBRARY_PATH 中的 {folder} 是前向兼容驱动，{gpu} 不支持它（错误 804）",
        },
        "without": {
            "en": "take {folder} out of LD_LIBRARY_PATH",
            "zh": "把 {folder} 从 LD_LIBRARY_PATH 中去掉",
        },
    },
)
