"""An environment as a file, and what differs between two of them.

Must guarantee: of the variables only those of an allow-list are written, and no path with the name of a user;
a file that is not one of ours is refused with a reason.
"""

from __future__ import annotations

import json
import platform
import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

from packaging.version import InvalidVersion, Version

from samedevice.doctor._examine import examine
from samedevice.doctor.facts import Driver, Facts, GpuFacts, Package, TorchFacts
from samedevice.doctor.tables import KnownBug, known_bugs
from samedevice.doctor.visible import seen_gpus
from samedevice.errors import UsageError
from samedevice.findings import Finding
from samedevice.messages import Phrase, Several

SCHEMA = 1
KIND = "samedevice environment"
_MOST_BYTES = 4_000_000
VARIABLES = (
    *(
        "CUDA_VISIBLE_DEVICES",
        "CUDA_DEVICE_ORDER",
        "CUDA_LAUNCH_BLOCKING",
        "CUDA_HOME",
        "CUDA_MODULE_LOADING",
    ),
    *("NVIDIA_VISIBLE_DEVICES", "NVIDIA_DRIVER_CAPABILITIES", "LD_LIBRARY_PATH", "PYTHONNOUSERSITE"),
    *(
        "PYTORCH_CUDA_ALLOC_CONF",
        "PYTORCH_ALLOC_CONF",
        "PYTORCH_NVML_BASED_CUDA_CHECK",
        "TORCH_CUDA_ARCH_LIST",
    ),
    *("NCCL_P2P_DISABLE", "NCCL_P2P_LEVEL", "NCCL_SHM_DISABLE", "NCCL_IB_DISABLE", "NCCL_SOCKET_IFNAME"),
    *("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "OMP_NUM_THREADS", "TOKENIZERS_PARALLELISM"),
    *("ACCELERATE_USE_CPU", "ACCELERATE_USE_DEEPSPEED", "ACCELERATE_USE_FSDP", "ACCELERATE_TORCH_DEVICE"),
    *("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE", "ATTN_IMPLEMENTATION", "PYTORCH_ENABLE_MPS_FALLBACK"),
)
"""What may be written; everything else may be a secret."""
_PLACING = ("accelerate", "deepspeed", "diffusers", "peft", "petals", "sentence-transformers", "transformers")
"""Libraries that decide where modules go, or that move tensors."""
_MATTERS = re.compile(
    r"torch.*|triton|pytorch-triton|nvidia-(?!ml-py).*|cuda-.*|numpy|safetensors|tokenizers|huggingface-hub|optimum.*"
    r"|bitsandbytes|flash-attn|xformers|vllm|sglang|trl|lightning|pytorch-lightning|timm|datasets"
)
_OF_TORCH = re.compile(r"(torch|triton|nvidia-[\w-]+)\b")


def locked(facts: Facts) -> dict[str, Any]:
    """The environment as the document that `env lock` writes."""
    torch = facts.torch
    return {
        "schema": SCHEMA,
        "kind": KIND,
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "driver": None if facts.driver is None else asdict(facts.driver),
        "gpus": None if facts.gpus is None else [_gpu(gpu) for gpu in facts.gpus],
        "boards": facts.boards,
        "links": None if facts.links is None else [[*pair, link] for pair, link in facts.links.items()],
        "peers": None if facts.peers is None else [[*pair, peer] for pair, peer in facts.peers.items()],
        "torch": None if torch is None else {"version": torch.version, "cuda": torch.cuda, "hip": torch.hip},
        "packages": {each.name: _package(each) for each in reversed(facts.packages) if _matters(each)},
        "variables": {name: _plain(facts, name) for name in VARIABLES if name in facts.variables},
    }


def _gpu(gpu: GpuFacts) -> dict[str, Any]:
    """Without the UUID and what changes by the minute."""
    return {
        "index": gpu.index,
        "name": gpu.name,
        "memory_mib": gpu.memory_mib,
        "capability": gpu.capability,
        "mig": gpu.mig,
        "mig_pending": gpu.mig_pending,
        "mig_devices": gpu.mig_devices,
        "compute_mode": gpu.compute_mode,
    }


def _matters(package: Package) -> bool:
    name = package.name
    return (
        name in _PLACING
        or _MATTERS.fullmatch(name) is not None
        or any(bug.package == name for bug in known_bugs())
        or bool(_of_torch(package))
    )


def _package(package: Package) -> dict[str, Any]:
    return {
        "version": package.version,
        "requires": _of_torch(package),
    }


def _of_torch(package: Package) -> list[str]:
    """What it requires of torch and of what torch loads, without what only its extras do."""
    return [each for each in package.requires if _OF_TORCH.match(each) and "extra ==" not in each]


def _plain(facts: Facts, name: str) -> str:
    value, home = facts.variables[name], facts.variables.get("HOME", "")
    return value.replace(home, "~") if home not in ("", "/") else value


@dataclass(frozen=True, slots=True)
class Locked:
    """An environment that was read from a file."""

    facts: Facts
    python: str
    system: str


def read_locked(path: Path) -> Locked:
    """An environment from its file; raises `UsageError` for what is none."""
    try:
        if path.stat().st_size > _MOST_BYTES:
            raise UsageError(Phrase("environment.none", path=str(path)))
        document = json.loads(path.read_text("utf-8"))
    except OSError as error:
        reason = error.strerror or str(error)
        raise UsageError(Phrase("environment.unreadable", path=str(path), reason=reason)) from None
    except (ValueError, RecursionError):
        raise UsageError(Phrase("environment.none", path=str(path))) from None
    if not isinstance(document, dict) or document.get("kind") != KIND:
        raise UsageError(Phrase("environment.none", path=str(path)))
    if document.get("schema") != SCHEMA:
        given = str(document.get("schema"))
        raise UsageError(Phrase("environment.schema", path=str(path), given=given))
    try:
        return Locked(_facts(document), str(document["python"]), str(document["system"]))
    except (KeyError, TypeError, ValueError, AttributeError):
        raise UsageError(Phrase("environment.none", path=str(path))) from None


def _facts(document: Mapping[str, Any]) -> Facts:
    driver, gpus, torch = document["driver"], document["gpus"], document["torch"]
    packages = {str(name): dict(row) for name, row in document["packages"].items()}
    return Facts(
        driver=None
        if driver is None
        else Driver(
            str(driver["version"]), str(driver["cuda"]), str(driver["trouble"]), bool(driver["hangs"])
        ),
        gpus=None if gpus is None else tuple(_read_gpu(row) for row in gpus),
        boards=document["boards"],
        links=_pairs(document["links"]),
        peers=_pairs(document["peers"]),
        torch=None
        if torch is None
        else TorchFacts(str(torch["version"]), "", str(torch["cuda"]), str(torch["hip"])),
        packages=tuple(
            Package(name, str(row["version"]), "", tuple(map(str, row["requires"])))
            for name, row in packages.items()
        ),
        variables={str(name): str(value) for name, value in document["variables"].items()},
    )


def _read_gpu(row: Mapping[str, Any]) -> GpuFacts:
    capability = row["capability"]
    return GpuFacts(
        index=int(row["index"]),
        name=str(row["name"]),
        memory_mib=None if row["memory_mib"] is None else int(row["memory_mib"]),
        capability=None if capability is None else (int(capability[0]), int(capability[1])),
        mig=bool(row["mig"]),
        mig_pending=bool(row["mig_pending"]),
        mig_devices=int(row["mig_devices"]),
        compute_mode=str(row["compute_mode"]),
    )


def _pairs(rows: Any) -> dict[tuple[int, int], str] | None:
    return None if rows is None else {(int(one), int(other)): str(said) for one, other, said in rows}


@dataclass(frozen=True, slots=True)
class Difference:
    """Something that two environments do not share.

    `why` says how it may explain a device error; None where it does not.
    """

    what: str
    first: str
    second: str
    why: Phrase | None = None


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two environments: what differs, and what only one of them is found wrong for."""

    differences: tuple[Difference, ...]
    first: tuple[Finding[Phrase], ...] = ()
    second: tuple[Finding[Phrase], ...] = ()


def compared(first: Locked, second: Locked) -> Comparison:
    """What differs, with what explains device errors in front."""
    found = [
        *_of_gpus(first.facts, second.facts),
        *_of_versions(first, second),
        *_of_variables(first, second),
    ]
    found.sort(key=lambda each: each.why is None)
    findings = [examine(each.facts).findings for each in (first, second)]
    codes = [{finding.code for finding in each} for each in findings]
    only = [tuple(each for each in findings[own] if each.code not in codes[1 - own]) for own in (0, 1)]
    return Comparison(tuple(found), *only)


def gpus_text(facts: Facts) -> str:
    """`2 x NVIDIA A100-SXM4-80GB`; `-` for none."""
    runs = ((name, len(list(run))) for name, run in groupby(gpu.name for gpu in facts.gpus or ()))
    return " + ".join(f"{count} x {name}" for name, count in runs) or "-"


def _of_gpus(first: Facts, second: Facts) -> Iterator[Difference]:
    if gpus_text(first) != gpus_text(second):
        yield Difference("gpus", gpus_text(first), gpus_text(second), _why_gpus(first, second))
    seen = [len(seen_gpus(each)) for each in (first, second)]
    if seen[0] != seen[1] and len(first.gpus or ()) == len(second.gpus or ()):
        yield Difference("visible", str(seen[0]), str(seen[1]), Phrase("environment.visible"))
    memory = [[gpu.memory_mib for gpu in each.gpus or ()] for each in (first, second)]
    if memory[0] != memory[1] and gpus_text(first) == gpus_text(second):
        yield Difference("memory", _list(memory[0]), _list(memory[1]), Phrase("environment.memory"))
    mig = [any(gpu.mig for gpu in each.gpus or ()) for each in (first, second)]
    if mig[0] != mig[1]:
        yield Difference("mig", _switch(mig[0]), _switch(mig[1]), Phrase("environment.mig"))
    links = [_links(each) for each in (first, second)]
    if links[0] != links[1]:
        yield Difference("links", links[0], links[1])
    drivers = [each.driver.version if each.driver else "-" for each in (first, second)]
    if drivers[0] != drivers[1]:
        yield Difference("driver", drivers[0] or "-", drivers[1] or "-")


def _why_gpus(first: Facts, second: Facts) -> Phrase:
    counts = [len(each.gpus or ()) for each in (first, second)]
    if 0 in counts:
        return Phrase("environment.no-gpu")
    return Phrase("environment.one-gpu" if 1 in counts else "environment.gpus")


def _list(values: list[int | None]) -> str:
    return ", ".join("?" if value is None else f"{value} MiB" for value in values) or "-"


def _switch(on: bool) -> str:
    return "on" if on else "off"


def _links(facts: Facts) -> str:
    return ", ".join(sorted(set((facts.links or {}).values()))) or "-"


def _of_versions(first: Locked, second: Locked) -> Iterator[Difference]:
    one, other = first.facts, second.facts
    builds = [each.torch for each in (one, other)]
    cuda = [each.cuda if each is not None else "" for each in builds]
    if cuda[0] != cuda[1]:
        why = Phrase("environment.no-cuda") if "" in cuda else None
        yield Difference("torch.version.cuda", cuda[0] or "-", cuda[1] or "-", why)
    versions = [{each.name: each.version for each in side.packages} for side in (one, other)]
    for name in sorted(versions[0].keys() | versions[1].keys()):
        own, others = versions[0].get(name), versions[1].get(name)
        if own != others:
            yield Difference(name, own or "-", others or "-", _why_version(name, own, others))
    if first.python != second.python:
        yield Difference("python", first.python, second.python)
    if first.system != second.system:
        yield Difference("system", first.system, second.system)


def _why_version(name: str, first: str | None, second: str | None) -> Phrase | None:
    """Known bugs that only one of two releases has; of libraries that place modules, that they do."""
    bugs = [_bugs(name, each) for each in (first, second)]
    said = []
    for own, others, version in ((bugs[0], bugs[1], first), (bugs[1], bugs[0], second)):
        alone = [bug for case, bug in own.items() if case not in others]
        if alone and version is not None:
            subjects = Several(tuple(dict.fromkeys(bug.subject or bug.names[0] for bug in alone)), "comma")
            key = "environment.bugs-alone" if None in (first, second) else "environment.bugs"
            said.append(Phrase(key, name=name, version=version, count=len(alone), subjects=subjects))
    if said:
        return said[0] if len(said) == 1 else Phrase("environment.both", one=said[0], other=said[1])
    if None in (first, second):
        return Phrase("environment.one-side", name=name) if name in (*_PLACING, "torch") else None
    if name in _PLACING:
        return Phrase("environment.placing", name=name)
    return Phrase("environment.torch") if name == "torch" else None


def _bugs(name: str, version: str | None) -> dict[str, KnownBug]:
    try:
        release = Version(Version(version).public) if version is not None else None
    except InvalidVersion:
        release = None
    if release is None:
        return {}
    return {
        bug.case: bug for bug in known_bugs() if bug.package == name and bug.certain_in(release) is not None
    }


def _of_variables(first: Locked, second: Locked) -> Iterator[Difference]:
    one, other = first.facts.variables, second.facts.variables
    for name in sorted(one.keys() | other.keys()):
        if one.get(name) != other.get(name):
            yield Difference(name, one.get(name, "-"), other.get(name, "-"), _why_variable(name))


def _why_variable(name: str) -> Phrase | None:
    if name in ("CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "NVIDIA_VISIBLE_DEVICES"):
        return Phrase("environment.numbers")
    if name in ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE"):
        return Phrase("environment.ranks")
    return Phrase("environment.accelerate") if name.startswith("ACCELERATE_") else None
