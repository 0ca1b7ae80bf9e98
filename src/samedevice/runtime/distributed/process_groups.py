"""`torch.distributed` on a virtual machine: NCCL is there, and its bytes travel over gloo, or nowhere.

Must guarantee: torch's own Python makes, names and checks the groups; only the backend behind `nccl` is ours.
With assumed ranks (`--ranks one`) one process is a whole launch: it meets nobody, and what the others would
send is what it has itself.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed.distributed_c10d as c10d

from samedevice.runtime.distributed.exchange import (
    AssumedExchange,
    GlooExchange,
    exchanges,
    flush_all,
    keep,
    kept_alive,
)
from samedevice.runtime.distributed.works import Works
from samedevice.runtime.patching import SOME, Constant, Patch
from samedevice.runtime.state import as_torch, assumed_ranks, current_machine
from samedevice.torch_versions.adapter import TORCH

_c10d: Any = torch._C._distributed_c10d
_Gloo: Any = c10d.ProcessGroupGloo
_TIMEOUT = timedelta(minutes=10)


class _Options:
    """`ProcessGroupNCCL.Options`: kept, and without effect."""

    backend = "nccl"

    def __init__(self, is_high_priority_stream: bool = False) -> None:
        self.is_high_priority_stream = is_high_priority_stream
        self._timeout = _TIMEOUT
        self.config = ProcessGroupNCCL.NCCLConfig()
        self.split_from: Any = None
        self.split_color = 0
        self.global_ranks_in_group: list[int] = []
        self.group_name = ""


class _Config:
    """`ProcessGroupNCCL.NCCLConfig`: takes any setting."""


class ProcessGroupNCCL(_Gloo):  # type: ignore[misc]  # torch's class is Any here
    """The backend `nccl` of a virtual machine."""

    Options = _Options
    NCCLConfig = _Config
    supports_splitting = True
    supports_coalescing = False

    def __init__(self, store: Any, rank: int, size: int, options: Any = None, last: Any = None) -> None:
        """`last` is a timeout or, in newer releases of torch, the GPU that the group is bound to."""
        timeout = last if isinstance(last, timedelta) else None
        self.nccl_options = _Options() if options is None else options
        self._splits = 0
        self._place = rank
        if getattr(self.nccl_options, "split_from", None) is not None:
            # The parts of a split meet through their parent. torch 2.6 gives them all one name and one store.
            ranks = "-".join(map(str, self.nccl_options.global_ranks_in_group))
            store = _c10d.PrefixStore(f"{ranks}/", store)
        _init_gloo(
            self, store, rank, size, getattr(self.nccl_options, "_timeout", None) or timeout or _TIMEOUT
        )
        keep(self)

    @property
    def options(self) -> Any:
        """The options that the group was made with."""
        return self.nccl_options

    def _is_initialized(self) -> bool:
        return True

    def _shutdown(self) -> None:
        """Releases before 2.7 ask for it when a group is destroyed; gloo has nothing to end."""

    def comm_split_count(self) -> int:
        """Communicators that were split from this one."""
        return self._splits

    def split(self, store: Any, ranks: list[int], options: Any = None) -> ProcessGroupNCCL | None:
        """The backend of some ranks of this group; None where this one is not among them."""
        self._splits += 1
        return (
            ProcessGroupNCCL(store, ranks.index(self._place), len(ranks), options)
            if self._place in ranks
            else None
        )

    def perform_nocolor_split(self, device: torch.device) -> None:
        """Take part in a split as a rank that is in none of the new groups."""
        self._splits += 1

    def eager_connect_single_device(self, device: torch.device | None = None) -> None:
        """A group that is bound to a device connects at once; this one may wait until the first exchange."""


class _AssumedGloo(_Gloo):  # type: ignore[misc]  # torch's class is Any here
    """The backend `gloo` of a process whose other ranks are assumed."""

    def __init__(self, store: Any, rank: int, size: int, timeout: Any = None, **settings: Any) -> None:
        """`settings` are for processes that leave and come back while a program runs; nobody does here."""
        _init_gloo(self, store, rank, size, timeout or _TIMEOUT)
        keep(self)


def _init_gloo(backend: Any, store: Any, rank: int, size: int, timeout: timedelta) -> None:
    """Make the shell that torch sees, and how it will reach the other ranks.

    A group asks its backend for rank and size in newer releases of torch, where gloo can be made without
    meeting the others. Older ones know both themselves, and the shell is a gloo of one rank.
    """
    options = _Gloo._Options()
    options._devices = [_Gloo.create_device(hostname="127.0.0.1")]
    options._timeout = timeout
    store = _c10d.PrefixStore(
        f"{_launches[0]}/", store
    )  # or addresses of groups that were destroyed would be found in it
    with as_torch():
        shell = _Gloo._Options()
        shell._devices, shell._timeout = options._devices, timeout
        place = (0, 1)
        if hasattr(shell, "enable_reconfigure"):
            shell.enable_reconfigure = True
            place = (rank, size)
        _Gloo.__init__(backend, _c10d.HashStore(), *place, shell)
    exchanges[id(backend)] = (
        GlooExchange(lambda: _Gloo(store, rank, size, options))
        if assumed_ranks() is None
        else AssumedExchange(size)
    )


_launches = [0]
"""How often this process has destroyed all groups: every rank as often, and torch gives the next ones the
same names.
"""


def _rendezvous(url: str, rank: int = -1, world_size: int = -1, **kwargs: Any) -> Iterator[Any]:
    from torch.testing._internal.distributed.fake_pg import FakeStore

    own = os.environ.get("RANK", "0") if rank < 0 else rank
    size = os.environ.get("WORLD_SIZE", assumed_ranks()) if world_size < 1 else world_size
    yield FakeStore(), int(own), int(size)  # type: ignore[arg-type]  # a number of ranks was given


def _destroying(original: Any) -> Any:
    def destroy_process_group(group: Any = None) -> None:
        flush_all()
        everything = group is None or group is dist.group.WORLD
        original(group)
        if everything:
            exchanges.clear()
            kept_alive.clear()
            _launches[0] += 1

    return destroy_process_group


def _splitting(original: Any) -> Any:
    def split_group(
        parent: Any,
        new_ranks: list[int],
        timeout: timedelta | None = None,
        opts: Any = None,
        group_name: str | None = None,
        group_desc: str | None = None,
        device_types: list[torch.device] | None = None,
    ) -> Any:
        backends = {device: parent._get_backend(device) for device in parent._device_types}
        if not any(isinstance(backend, ProcessGroupNCCL) for backend in backends.values()):
            return original(parent, new_ranks, timeout, opts, group_name, group_desc, device_types)
        kept = {device.type for device in device_types or backends}
        backends = {device: backend for device, backend in backends.items() if device.type in kept}
        return _split(parent, backends, sorted(new_ranks), timeout, opts, group_name, group_desc)

    return split_group


def _split(
    parent: Any,
    backends: dict[torch.device, Any],
    ranks: list[int],
    timeout: timedelta | None,
    options: Any,
    name: str | None,
    description: str | None,
) -> Any:
    """The group of `ranks` of `parent`, with a backend of the same kind for each of `backends`.

    None where this rank is not among them.
    """
    for backend in {
        id(each): each for each in backends.values() if isinstance(each, ProcessGroupNCCL)
    }.values():
        backend.perform_nocolor_split(torch.device("cuda"))
    if parent.rank() not in ranks:
        return None
    name = name or f"{parent.group_name}:split:{ranks}"
    rank, store = ranks.index(parent.rank()), _c10d.PrefixStore(f"{name}/", parent.get_group_store())
    group: Any = dist.ProcessGroup(store, rank, len(ranks))
    kinds = dist.ProcessGroup.BackendType
    made: dict[int, Any] = {}
    for device, backend in backends.items():
        ours = isinstance(backend, ProcessGroupNCCL)
        if id(backend) not in made:
            place = (_c10d.PrefixStore(f"{device.type}/", store), rank, len(ranks))
            made[id(backend)] = (
                ProcessGroupNCCL(*place, options, timeout)
                if ours
                else c10d.ProcessGroupGloo(*place, timeout=timeout or _TIMEOUT)
            )
        group._register_backend(device, kinds.NCCL if ours else kinds.GLOO, made[id(backend)])
        if device.type == "cuda" or len(backends) == 1:
            group._set_default_backend(kinds.NCCL if ours else kinds.GLOO)
    group._set_group_name(name)
    group._set_group_desc(description or "undefined")
    return group


def _opening(original: Any) -> Callable[..., Any]:
    def start_coalescing(group: Any, device: torch.device) -> Any:
        if not _is_ours(group, device):
            return original(group, device)
        return current_machine().part(Works).open_bracket(group)

    return start_coalescing


def _closing(original: Any) -> Callable[..., Any]:
    def end_coalescing(group: Any, device: torch.device) -> Any:
        if not _is_ours(group, device):
            return original(group, device)
        return current_machine().part(Works).close_bracket(group)

    return end_coalescing


def _is_ours(group: Any, device: torch.device) -> bool:
    backend = group._get_backend(device)
    return id(backend) in exchanges or isinstance(backend, ProcessGroupNCCL)


def _noting(original: Any) -> Callable[..., Any]:
    assert TORCH.noting_reductions is not None
    return TORCH.noting_reductions(original)


def _assumes() -> bool:
    return current_machine().assumed_ranks is not None


_C10D = "torch.distributed.distributed_c10d"
_NCCL = {
    **{name: SOME for name in vars(c10d) if name.startswith("ProcessGroupNCCL")},
    "ProcessGroupNCCL": "",
    "ProcessGroupNCCL2": "torch 2.14",
    "ProcessGroupNCCLLazy": "torch 2.14",
}
"""Backends over NCCL, and the release that brought them; one that is not named here is replaced, too."""
_ALONE = "with assumed ranks (`--ranks one`) nobody else is there to meet"
PATCHES = (
    *(
        Patch(
            f"{owner}.{name}",
            Constant(ProcessGroupNCCL),
            "the backend `nccl` talks to real GPUs, and a build without CUDA has none",
            since=since,
        )
        for name, since in _NCCL.items()
        for owner in (_C10D, "torch.distributed", "torch._C._distributed_c10d")
    ),
    Patch(f"{_C10D}._NCCL_AVAILABLE", Constant(True), "torch refuses `nccl` where it was built without"),
    *(
        Patch(
            f"{owner}.default_pg_nccl_timeout",
            Constant(_TIMEOUT),
            "a build without NCCL has no default for its timeout",
        )
        for owner in (_C10D, "torch.distributed.constants")
    ),
    *(
        Patch(
            f"torch.distributed.ProcessGroup.{name}",
            replacement,
            "the backend behind `nccl` has no coalescing in C++; the calls in the brackets run one by one",
        )
        for name, replacement in (("_start_coalescing", _opening), ("_end_coalescing", _closing))
    ),
    *(
        Patch(
            f"torch.distributed.ProcessGroup.{name}",
            _noting,
            "before torch 2.10 the dispatcher hands on a reduction that does not tell its kind",
            when=lambda: TORCH.noting_reductions is not None,
        )
        for name in (
            "allreduce",
            "allreduce_coalesced",
            "reduce",
            "reduce_scatter",
            "_reduce_scatter_base",
            "reduce_scatter_tensor_coalesced",
        )
    ),
    Patch(
        "torch.distributed.ProcessGroup.split_group",
        _splitting,
        "C++ would split the shell of a backend that torch sees, and not our half of it",
        since=SOME,
    ),
    *(
        Patch(
            f"{owner}.destroy_process_group",
            _destroying,
            "what still travels is sent before, and later groups of the same names must not find the old",
        )
        for owner in (_C10D, "torch.distributed")
    ),
    Patch(f"{_C10D}.rendezvous", Constant(_rendezvous), _ALONE, when=_assumes),
    Patch(f"{_C10D}.ProcessGroupGloo", Constant(_AssumedGloo), _ALONE, when=_assumes),
)
