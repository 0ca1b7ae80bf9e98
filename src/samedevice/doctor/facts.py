"""What can be known of a machine and an environment before anything runs on it.

Plain records without a fault. None stands for what could not be read; `Facts.unread` says why.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from packaging.version import InvalidVersion, Version

from samedevice.messages import Phrase

Topic = Literal[
    "driver",
    "gpus",
    "links",
    "peers",
    "torch",
    "cuda",
    "packages",
    "variables",
    "memory",
    "iommu",
    "project",
    "copies",
]
"""What a check reads."""


@dataclass(frozen=True, slots=True)
class GpuProcess:
    """A process that holds memory of a GPU; not one of this command's own."""

    pid: int
    name: str
    used_mib: int | None


@dataclass(frozen=True, slots=True)
class GpuFacts:
    """A GPU as the driver reports it."""

    index: int
    """As nvidia-smi numbers it: in the order of the bus."""
    name: str
    uuid: str = ""
    bus: str = ""
    memory_mib: int | None = None
    used_mib: int | None = None
    capability: tuple[int, int] | None = None
    mig: bool = False
    mig_pending: bool = False
    mig_devices: int = 0
    compute_mode: str = ""
    fabric: str = ""
    """State of the NVSwitch fabric: `Completed`, `In Progress`, or nothing where there is none."""
    fabric_status: str = ""
    reset_required: bool = False
    rows_pending: bool = False
    """Whether memory rows wait for a reset to be replaced."""
    uncorrectable: int = 0
    """Memory errors since the driver was loaded that ECC could not correct."""
    processes: tuple[GpuProcess, ...] = ()


@dataclass(frozen=True, slots=True)
class Driver:
    """The driver; `trouble` is what it said instead of answering."""

    version: str = ""
    cuda: str = ""
    """The newest CUDA that it supports."""
    trouble: str = ""
    hangs: bool = False
    """Whether it did not answer at all in its time."""


@dataclass(frozen=True, slots=True)
class Package:
    """An installed distribution, as its metadata has it."""

    name: str
    version: str
    folder: str
    requires: tuple[str, ...] = ()
    origin: str = ""
    """The address that it was installed from, where pip noted one."""

    @property
    def release(self) -> Version | None:
        """The version, or None where it cannot be read as one."""
        try:
            return Version(self.version)
        except InvalidVersion:
            return None


@dataclass(frozen=True, slots=True)
class TorchFacts:
    """The torch of this environment, from its files; what only torch itself knows stands in `CudaFacts`."""

    version: str
    folder: str
    cuda: str = ""
    hip: str = ""
    libraries: Mapping[str, str] = field(default_factory=dict)
    """CUDA's libraries that came with torch: the name that is loaded, and the file."""


@dataclass(frozen=True, slots=True)
class CudaFacts:
    """What torch said of its CUDA part in a process of its own."""

    architectures: tuple[str, ...] = ()
    """`sm_80`, `compute_90`."""
    count: int | None = None
    warnings: tuple[str, ...] = ()
    trouble: str = ""
    """Why it could not be imported or started."""
    broken: Mapping[str, str] = field(default_factory=dict)
    """Extensions that cannot be imported, with what was said."""
    access: Mapping[tuple[int, int], bool] = field(default_factory=dict)
    """Whether one visible GPU can read another's memory, as CUDA says."""


@dataclass(frozen=True, slots=True)
class Copied:
    """Patterns that went from one GPU to another; to itself: to it and back. Numbers are those of torch."""

    source: int
    target: int
    size: int
    """Bytes of all patterns."""
    wrong: int
    """Bytes that arrived changed."""
    first: int | None = None
    """Where the first of them stands in its pattern."""


@dataclass(frozen=True, slots=True)
class CopyTest:
    """What `--gpu-test` saw; `done` when every pair was tested."""

    copied: tuple[Copied, ...] = ()
    done: bool = False
    trouble: str = ""


@dataclass(frozen=True, slots=True)
class Use:
    """Something that the files of the project show, and where."""

    what: str
    place: str
    name: str = ""
    """As the file spells it, where `what` is our word for it."""


@dataclass(frozen=True, slots=True)
class Project:
    """What the files below the working directory show of what they use."""

    folder: str = ""
    files: int = 0
    launchers: tuple[Use, ...] = ()
    tensor_parallel: tuple[Use, ...] = ()
    workers: tuple[Use, ...] = ()
    """Loaders with worker processes."""
    spread: tuple[Use, ...] = ()
    """Models that are spread over GPUs by a map."""
    offloaded: tuple[Use, ...] = ()
    """Models whose weights wait in host memory."""
    bugs: tuple[Use, ...] = ()
    """Names of known bugs whose class or model is used."""
    processes: tuple[Use, ...] = ()
    """Numbers of processes that launches ask for."""


@dataclass(frozen=True, slots=True)
class Unread:
    """Something that could not be read, and why."""

    topic: Topic
    why: Phrase


@dataclass(frozen=True, slots=True)
class Facts:
    """Everything that was read; what could not be is in `unread`."""

    driver: Driver | None = None
    gpus: tuple[GpuFacts, ...] | None = None
    boards: int | None = None
    """NVIDIA GPUs on the PCI bus, whether a driver is there or not."""
    nodes: tuple[str, ...] | None = None
    """What `/dev` has of NVIDIA."""
    links: Mapping[tuple[int, int], str] | None = None
    """`NV18`, `PIX`, `SYS`, ... for each pair, as `nvidia-smi topo -m` prints them."""
    peers: Mapping[tuple[int, int], str] | None = None
    """`OK`, `CNS`, ... for each pair, as `nvidia-smi topo -p2p r` prints them."""
    torch: TorchFacts | None = None
    cuda: CudaFacts | None = None
    packages: tuple[Package, ...] = ()
    variables: Mapping[str, str] = field(default_factory=dict)
    shared_memory: int | None = None
    """Bytes of `/dev/shm`."""
    iommu: Mapping[str, str] | None = None
    """The kind of IOMMU domain that each GPU is in, by its place on the bus."""
    redirects: tuple[str, ...] | None = None
    """PCI bridges whose access control sends traffic between devices up to the host."""
    searched: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    """Libraries of CUDA in LD_LIBRARY_PATH, by path: the name that is loaded, and the file behind it."""
    toolkit: str = ""
    """CUDA version of the compiler that extensions would be built with."""
    settings: Mapping[str, str] = field(default_factory=dict)
    """accelerate's own configuration of this user; its file under `file`."""
    container: bool = False
    project: Project = field(default_factory=Project)
    copies: CopyTest | None = None
    """None where nobody asked for the test."""
    unread: tuple[Unread, ...] = ()

    def package(self, name: str) -> Package | None:
        """The installed distribution of a name; of several the one that Python finds first."""
        return next((each for each in self.packages if each.name == name), None)
