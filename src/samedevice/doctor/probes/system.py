"""What the operating system tells: devices, shared memory, IOMMU, bridges, libraries, accelerate's settings.

Sources: the kernel's sysfs (`iommu_group/type`: Documentation/ABI/testing/sysfs-kernel-iommu_groups),
proc(5), `lspci -vvv` for access control of bridges, which only root may read.
"""

from __future__ import annotations

import re
from dataclasses import replace

from samedevice.doctor.facts import Facts, Unread
from samedevice.doctor.host import Host
from samedevice.messages import Phrase

_PCI = "/sys/bus/pci/devices"
_NVIDIA = "0x10de"
_DISPLAY = ("0x0300", "0x0302")
"""PCI classes of a GPU, with and without a display."""
_LIBRARY = re.compile(
    r"lib(cuda|cudart|cublas|cublasLt|cudnn\w*|cufft|curand|cusolver|cusparse|nccl|nvJitLink)\.so[\d.]*"
)
_SECONDS = 20.0
_ACCELERATE = "accelerate/default_config.yaml"


def read_system(host: Host, facts: Facts) -> Facts:
    """Everything that the operating system tells."""
    boards = [name for name in host.names(_PCI) if _is_gpu(host, name)]
    facts = replace(
        facts,
        boards=len(boards) if host.names(_PCI) else None,
        nodes=tuple(name for name in host.names("/dev") if name.startswith("nvidia")),
        shared_memory=host.capacity("/dev/shm"),
        searched=_searched(host, facts),
        toolkit=_toolkit(host, facts),
        settings=_settings(host, facts),
        container=host.text("/.dockerenv") is not None
        or host.text("/run/.containerenv") is not None
        or "KUBERNETES_SERVICE_HOST" in facts.variables,
    )
    if facts.shared_memory is None:
        facts = replace(facts, unread=(*facts.unread, Unread("memory", Phrase("doctor.no-shm"))))
    return _with_paths(host, facts, boards)


def _is_gpu(host: Host, name: str) -> bool:
    vendor, kind = (host.text(f"{_PCI}/{name}/{file}") or "" for file in ("vendor", "class"))
    return vendor.strip() == _NVIDIA and kind.strip()[:6] in _DISPLAY


def _with_paths(host: Host, facts: Facts, boards: list[str]) -> Facts:
    """IOMMU domains and redirecting bridges, which matter between GPUs only."""
    if len(boards) < 2:
        return replace(facts, iommu={}, redirects=())
    kinds = {name: host.text(f"{_PCI}/{name}/iommu_group/type") for name in boards}
    iommu = {name: kind.strip() for name, kind in kinds.items() if kind}
    answer = host.run(["lspci", "-vvv"], _SECONDS)
    redirects = _redirects(answer.output) if answer.status == 0 else None
    facts = replace(facts, iommu=iommu, redirects=redirects)
    if redirects is None and answer.failure is not None:
        facts = replace(facts, unread=(*facts.unread, Unread("iommu", answer.failure)))
    elif redirects is None or "access denied" in answer.output:
        why = Phrase("doctor.needs-root", command="lspci -vvv")
        facts = replace(facts, unread=(*facts.unread, Unread("iommu", why)))
    return facts


def _redirects(text: str) -> tuple[str, ...]:
    """Bridges with `ReqRedir+` or `CmpltRedir+` in what their access control is set to."""
    found = []
    for block in re.split(r"\n(?=\S)", text):
        if "PCI bridge" in block.partition("\n")[0] and re.search(
            r"ACSCtl:.*(?:ReqRedir|CmpltRedir)\+", block
        ):
            found.append(block.split(maxsplit=1)[0])
    return tuple(found)


def _searched(host: Host, facts: Facts) -> dict[str, tuple[str, str]]:
    folders = [each for each in facts.variables.get("LD_LIBRARY_PATH", "").split(":") if each]
    listed = {
        folder: tuple(name for name in host.names(folder) if _LIBRARY.fullmatch(name)) for folder in folders
    }
    return {
        f"{folder}/{name}": (name, host.target(f"{folder}/{name}"))
        for folder, names in listed.items()
        for name in names
    }


def _toolkit(host: Host, facts: Facts) -> str:
    """The version of the compiler that extensions would be built with."""
    home = facts.variables.get("CUDA_HOME") or facts.variables.get("CUDA_PATH")
    answer = host.run([f"{home}/bin/nvcc" if home else "nvcc", "--version"], _SECONDS)
    found = re.search(r"release (\d+\.\d+)", answer.output)
    return found[1] if found else ""


def _settings(host: Host, facts: Facts) -> dict[str, str]:
    """The plain values of accelerate's own configuration, as `accelerate config` writes it."""
    home = facts.variables.get("HOME", "")
    cache = (
        facts.variables.get("HF_HOME")
        or f"{facts.variables.get('XDG_CACHE_HOME') or f'{home}/.cache'}/huggingface"
    )
    text = host.text(f"{cache}/{_ACCELERATE}")
    if text is None:
        return {}
    values = re.findall(r"^(\w+):[ ]*(.*?)[ ]*$", text, re.MULTILINE)
    return {"file": f"{cache}/{_ACCELERATE}", **{name: value.strip("'\"") for name, value in values}}
