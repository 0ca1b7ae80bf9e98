"""Several copies of torch, or of CUDA's libraries, in one environment."""

from __future__ import annotations

import re
from collections.abc import Iterator

from samedevice.doctor.check import Check, Fault
from samedevice.doctor.facts import Facts, Package
from samedevice.messages import Phrase

_TWICE = ("torch", "triton", "transformers", "accelerate", "torchvision")
_RUNTIME = re.compile(r"nvidia-(cublas|cudnn|cuda-runtime|nccl)-cu(\d+)")


def _look(facts: Facts) -> Iterator[Fault]:
    for name in _TWICE:
        copies = _different([each for each in facts.packages if each.name == name])
        if len(copies) > 1:
            listed = ", ".join(f"{each.version} in {each.folder}" for each in copies)
            yield Fault(
                Phrase("checks.several-copies.twice", name=name, copies=listed),
                Phrase("checks.several-copies.keep", name=name, folder=copies[1].folder),
                "likely",
            )
    kinds: dict[str, dict[str, Package]] = {}
    for package in facts.packages:
        if found := _RUNTIME.fullmatch(package.name):
            kinds.setdefault(found[1], {})[found[2]] = package
    for library, found_in in kinds.items():
        if len(found_in) > 1:
            own = facts.torch.cuda.partition(".")[0] if facts.torch is not None else ""
            foreign = [each for major, each in sorted(found_in.items()) if major != own]
            yield Fault(
                Phrase(
                    "checks.several-copies.runtimes",
                    library=library,
                    copies=", ".join(f"{each.name} {each.version}" for each in found_in.values()),
                ),
                Phrase("checks.several-copies.remove", names=" ".join(each.name for each in foreign)),
                "likely",
            )


def _different(copies: list[Package]) -> list[Package]:
    """One of each folder; a folder that is searched twice is one copy."""
    return list({each.folder: each for each in reversed(copies)}.values())[::-1]


CHECK = Check(
    code="SD314",
    name="several-copies",
    title={"en": "several copies of one library in this environment", "zh": "环境里同一个库装了多份"},
    reads=("packages",),
    sources=("importlib.metadata over sys.path", "https://github.com/pytorch/pytorch/issues/103832"),
    look=_look,
    sentences={
        "twice": {
            "en": "{name} is installed more than once: {copies}; which one is loaded depends on the "
            "order of sys.path",
            "zh": "{name} 装了不止一份：{copies}；加载哪一份取决于 sys.path 的顺序",
        },
        "runtimes": {
            "en": "{library} of CUDA is installed for several releases: {copies}",
            "zh": "CUDA 的 {library} 装了不同大版本的多份：{copies}",
        },
        "keep": {
            "en": "keep one: pip uninstall {name} until none is left, install it again, and set "
            "PYTHONNOUSERSITE=1 "
            "if the other is in a user folder ({folder})",
            "zh": "只留一份：反复 pip uninstall {name} 直到卸净，再重新安装；"
            "若另一份在用户目录（{folder}），设 PYTHONNOUSERSITE=1",
        },
        "remove": {"en": "pip uninstall {names}", "zh": "pip uninstall {names}"},
    },
)
