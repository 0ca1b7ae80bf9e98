"""Which GPUs a program of this environment sees."""

from __future__ import annotations

import re

from samedevice.doctor.facts import Facts, GpuFacts
from samedevice.machines import visible_gpus

SETTING = "CUDA_VISIBLE_DEVICES"


def seen_gpus(facts: Facts) -> tuple[GpuFacts, ...]:
    """The GPUs that CUDA shows; none where they could not be read.

    A MIG device stands for its GPU.
    """
    gpus = facts.gpus or ()
    setting = facts.variables.get(SETTING)
    if setting is not None and setting.strip().startswith("MIG-"):
        return tuple(gpu for gpu in gpus if gpu.mig)[:1]
    return tuple(gpus[index] for index in visible_gpus(setting, len(gpus), [gpu.uuid for gpu in gpus]))


def entries(facts: Facts) -> list[str]:
    """The entries of CUDA_VISIBLE_DEVICES; none where it is not set."""
    setting = facts.variables.get(SETTING)
    return [] if setting is None else [entry.strip() for entry in setting.split(",")]


def wanted_processes(facts: Facts) -> tuple[int, str] | None:
    """The most processes on one machine that a launch of the project asks for, and where."""
    counts = [(int(use.what), use.place) for use in facts.project.processes]
    return max(counts, default=None)


def version_tuple(text: str) -> tuple[int, ...]:
    """The numbers of a version, to compare drivers: `535.183.01` is (535, 183, 1)."""
    return tuple(int(number) for number in re.findall(r"\d+", text))


def places(gpus: tuple[GpuFacts, ...] | list[GpuFacts]) -> str:
    """GPUs as nvidia-smi numbers them: `0, 2`."""
    return ", ".join(str(gpu.index) for gpu in gpus)
