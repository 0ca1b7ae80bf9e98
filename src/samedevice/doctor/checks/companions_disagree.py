"""Packages that are compiled for one torch, beside another torch."""

from __future__ import annotations

import re
from collections.abc import Iterator

from packaging.requirements import InvalidRequirement, Requirement
from packaging.version import Version

from samedevice.doctor.check import Check, Fault
from samedevice.doctor.facts import Facts, Package
from samedevice.doctor.probes.cuda import EXTENSIONS
from samedevice.doctor.tables import companions, pairs
from samedevice.messages import Phrase

_WATCHED = (
    "torchvision",
    "torchaudio",
    "torchtext",
    "torchdata",
    "torchao",
    "xformers",
    "vllm",
    "flash-attn",
)
"""Packages whose requirement of torch is about the compiled code in them."""
_OF_TORCH = re.compile(r"triton|pytorch-triton|nvidia-[\w-]+|cuda-toolkit|cuda-bindings")
"""What torch itself pins because it loads it."""
_BUILT_FOR = re.compile(r"[+.](?:cu\d+)?torch(\d+\.\d+)")
"""In the name of a wheel that was compiled for a release of torch."""
_LINKS = (
    "undefined symbol",
    "does not exist",
    "cannot open shared object",
    "compiled for torch",
    "compiled with",
)


def _look(facts: Facts) -> Iterator[Fault]:
    torch = facts.package("torch")
    if torch is None:
        return
    told: set[str] = set()
    for fault, name in (*_pins(facts, torch), *_wheels(facts, torch), *_pairs(facts)):
        if name not in told:
            told.add(name)
            yield fault
    broken = facts.cuda.broken if facts.cuda is not None else {}
    for name, module in EXTENSIONS.items():
        said = broken.get(module, "")
        if name not in told and any(sign in said for sign in _LINKS):
            yield Fault(
                Phrase("checks.companions-disagree.broken", name=name, torch=torch.version, said=said),
                Phrase("checks.companions-disagree.again", name=name, torch=torch.version),
            )


def _pins(facts: Facts, torch: Package) -> Iterator[tuple[Fault, str]]:
    """What the metadata of the installed packages demands, and what the table of wheels adds to it."""
    for name in _WATCHED:
        package = facts.package(name)
        specifier = _demand(package, "torch") if package is not None else None
        if package is None or specifier is None or _fits(torch, specifier):
            continue
        values = {"name": name, "version": package.version, "wanted": specifier, "torch": torch.version}
        yield (
            Fault(Phrase("checks.companions-disagree.wants", **values), _matching(name, torch)),
            name,
        )
    for text in torch.requires:
        requirement = _requirement(text)
        if requirement is None or not _OF_TORCH.fullmatch(requirement.name):
            continue
        package = facts.package(requirement.name)
        specifier = str(requirement.specifier)
        if package is None or not specifier or _fits(package, specifier):
            continue
        reason = Phrase(
            "checks.companions-disagree.pinned",
            name=package.name,
            version=package.version,
            wanted=specifier,
            torch=torch.version,
        )
        repair = Phrase("checks.companions-disagree.install", what=f"{package.name}{specifier}")
        yield Fault(reason, repair), package.name


def _demand(package: Package, of: str) -> str | None:
    """The versions of a package that another one requires; from the table where its metadata does not say."""
    for text in package.requires:
        requirement = _requirement(text)
        if requirement is not None and requirement.name == of and str(requirement.specifier):
            return str(requirement.specifier)
    row = companions().get((package.name, package.version.partition("+")[0]))
    return row["torch"] or None if row is not None else None


def _requirement(text: str) -> Requirement | None:
    """One that holds here: of a marker only what speaks of extras is looked at, and left out."""
    try:
        found = Requirement(text)
    except InvalidRequirement:
        return None
    return None if found.marker is not None and "extra" in str(found.marker) else found


def _fits(package: Package, specifier: str) -> bool:
    release = package.release
    if release is None:
        return True
    public = Version(release.public)
    return public in Requirement(f"x{specifier}").specifier or release.is_devrelease or release.is_prerelease


def _matching(name: str, torch: Package) -> Phrase:
    """The newest release of a companion that wants exactly this torch."""
    public = torch.version.partition("+")[0]
    fitting = [
        version
        for (other, version), row in companions().items()
        if other == name and row["torch"] == f"=={public}"
    ]
    if not fitting:
        return Phrase("checks.companions-disagree.again", name=name, torch=torch.version)
    return Phrase("checks.companions-disagree.install", what=f"{name}=={max(fitting, key=Version)}")


def _wheels(facts: Facts, torch: Package) -> Iterator[tuple[Fault, str]]:
    """Wheels whose name says for which torch they were compiled."""
    release = torch.release
    for package in facts.packages:
        found = _BUILT_FOR.search(package.origin.replace("%2B", "+")) or _BUILT_FOR.search(package.version)
        if found is None or release is None or found[1] == f"{release.major}.{release.minor}":
            continue
        values = {"name": package.name, "version": package.version, "built": found[1], "torch": torch.version}
        yield (
            Fault(
                Phrase("checks.companions-disagree.wheel", **values),
                Phrase("checks.companions-disagree.again", name=package.name, torch=torch.version),
            ),
            package.name,
        )


def _pairs(facts: Facts) -> Iterator[tuple[Fault, str]]:
    for row in pairs():
        one, other = facts.package(row["package"]), facts.package(row["other"])
        if one is None or other is None or one.release is None or other.release is None:
            continue
        if one.release < Version(row["below"]) and other.release >= Version(row["from"]):
            values = {
                "name": other.name,
                "version": other.version,
                "torch": one.version,
                "below": row["below"],
            }
            yield (
                Fault(
                    Phrase("checks.companions-disagree.pair", **values),
                    Phrase("checks.companions-disagree.install", what=f'"{other.name}<{row["from"]}"'),
                ),
                other.name,
            )


CHECK = Check(
    code="SD303",
    name="companions-disagree",
    title={
        "en": "a package was made for another torch than the installed one",
        "zh": "有个包是为另一个版本的 torch 准备的",
    },
    reads=("packages",),
    sources=(
        "Requires-Dist of the installed packages; torch_pins.toml from PyPI's wheels",
        "https://github.com/pytorch/pytorch/issues/107302",
    ),
    look=_look,
    sentences={
        "wants": {
            "en": "{name} {version} wants torch{wanted}, and torch is {torch}",
            "zh": "{name} {version} 要求 torch{wanted}，而装的是 torch {torch}",
        },
        "pinned": {
            "en": "torch {torch} wants {name}{wanted}, and {name} is {version}",
            "zh": "torch {torch} 要求 {name}{wanted}，而装的是 {name} {version}",
        },
        "wheel": {
            "en": "the wheel of {name} {version} was compiled for torch {built}, and torch is {torch}",
            "zh": "{name} {version} 的 wheel 是针对 torch {built} 编译的，而装的是 torch {torch}",
        },
        "pair": {
            "en": "torch {torch} is older than {below} and cannot work with {name} {version}",
            "zh": "torch {torch} 早于 {below}，不能和 {name} {version} 一起用",
        },
        "broken": {
            "en": "{name} cannot be loaded beside torch {torch}: {said}",
            "zh": "{name} 在 torch {torch} 下加载失败：{said}",
        },
        "install": {"en": "pip install {what}", "zh": "pip install {what}"},
        "again": {
            "en": "install a {name} that was built for torch {torch}, or build it here: "
            "pip install --force-reinstall --no-cache-dir --no-build-isolation {name}",
            "zh": "换成针对 torch {torch} 编译的 {name}，或在本机重新编译："
            "pip install --force-reinstall --no-cache-dir --no-build-isolation {name}",
        },
    },
)
