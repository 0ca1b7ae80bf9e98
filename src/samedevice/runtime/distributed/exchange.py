"""How the processes of a group reach each other: over gloo, or over nothing where ranks are assumed."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Protocol

import torch
import torch.distributed as dist
import torch.distributed.distributed_c10d as c10d

from samedevice.errors import UnsupportedFeatureError
from samedevice.runtime.state import plain

_Gloo: Any = c10d.ProcessGroupGloo


class Exchange(Protocol):
    """How the processes of a group reach each other."""

    assumes: bool
    """Whether there are no other processes and all ranks are assumed equal."""

    def everyone(
        self, header: list[int], data: torch.Tensor | None
    ) -> list[tuple[list[int], torch.Tensor | None]]:
        """Header and bytes of each rank, in their order.

        The header tells the number of bytes (-1: none are sent), whether they are known, whether assumed, and
        the physical GPU.
        """

    def send(self, data: torch.Tensor, rank: int, tag: int) -> None:
        """Send bytes to one rank, without waiting for it."""

    def receive(self, data: torch.Tensor, rank: int, tag: int) -> Callable[[], None]:
        """Receive as many bytes from one rank; what is returned waits for them."""


class GlooExchange:
    """Exchanges bytes over a gloo backend, which is connected at the first exchange.

    NCCL meets the others no sooner either.
    """

    assumes = False

    def __init__(self, connect: Callable[[], Any]) -> None:
        self._connect = connect
        self._sent: list[tuple[Any, torch.Tensor]] = []

    @functools.cached_property
    def _backend(self) -> Any:
        return self._connect()

    def everyone(
        self, header: list[int], data: torch.Tensor | None
    ) -> list[tuple[list[int], torch.Tensor | None]]:
        """Header and bytes of each rank."""
        headers = self._gather(plain.tensor(header, dtype=torch.int64))
        lengths = [int(header[0]) for header in headers]
        longest = max(lengths)
        if longest <= 0:
            empty = plain.empty(0, dtype=torch.uint8)
            return [
                (header.tolist(), None if length < 0 else empty)
                for header, length in zip(headers, lengths, strict=True)
            ]
        givers = [rank for rank, length in enumerate(lengths) if length > 0]
        own = plain.zeros(longest, dtype=torch.uint8)
        if data is not None:
            own[: data.numel()] = data
        parts = self._gather(own) if len(givers) > 1 else self._spread(own, givers[0])
        return [
            (header.tolist(), None if length < 0 else part[:length])
            for header, length, part in zip(headers, lengths, parts, strict=True)
        ]

    def _gather(self, given: torch.Tensor) -> list[torch.Tensor]:
        outputs = [torch.empty_like(given) for _ in range(self._backend.size())]
        self._backend.allgather([outputs], [given]).wait()
        return outputs

    def _spread(self, data: torch.Tensor, root: int) -> list[torch.Tensor]:
        options = dist.BroadcastOptions()
        options.rootRank = root
        options.rootTensor = 0
        self._backend.broadcast([data], options).wait()
        return [data] * self._backend.size()

    def send(self, data: torch.Tensor, rank: int, tag: int) -> None:
        """Send without waiting; the bytes stay until they are gone."""
        self._sent = [(work, kept) for work, kept in self._sent if not work.is_completed()]
        self._sent.append((self._backend.send([data], rank, tag), data))

    def receive(self, data: torch.Tensor, rank: int, tag: int) -> Callable[[], None]:
        """Start receiving; what is returned waits."""
        work = self._backend.recv([data], rank, tag)
        return lambda: (work.wait(), None)[1]

    def flush(self) -> None:
        """Wait for what was sent."""
        while self._sent:
            self._sent.pop(0)[0].wait()


class AssumedExchange:
    """A group whose other ranks are assumed to be like this one."""

    assumes = True

    def __init__(self, size: int) -> None:
        self._size = size

    def everyone(
        self, header: list[int], data: torch.Tensor | None
    ) -> list[tuple[list[int], torch.Tensor | None]]:
        """The own header and bytes, as often as there are ranks."""
        return [(header, data)] * self._size

    def send(self, data: torch.Tensor, rank: int, tag: int) -> None:
        """Nobody receives it."""

    def receive(self, data: torch.Tensor, rank: int, tag: int) -> Callable[[], None]:
        """What another rank would send is not known."""
        return lambda: None


kept_alive: list[Any] = []
"""Backends whose Python half must live as long as the process: C++ holds the other half alone."""
exchanges: dict[int, Any] = {}
"""By the `id` of the backend that each belongs to."""


def keep(backend: Any) -> None:
    """Let a backend live as long as the process."""
    kept_alive.append(backend)


def exchange_for(backend: Any) -> Exchange:
    """The exchange behind a backend of a group."""
    found: Any = exchanges.get(id(backend))
    if found is None:
        if not isinstance(backend, _Gloo):
            raise UnsupportedFeatureError(
                f"Tensors of a virtual machine in a process group of {type(backend).__name__} are not "
                "supported."
            )
        keep(backend)
        found = exchanges[id(backend)] = GlooExchange(lambda: backend)
    return found  # type: ignore[no-any-return]  # looked up in a dict of Any


def is_assumed(backend: Any) -> bool:
    """Whether a backend stands for ranks that are assumed."""
    return isinstance(exchanges.get(id(backend)), AssumedExchange)


def flush_all() -> None:
    """Wait for what any group of this process sent."""
    for exchange in exchanges.values():
        if isinstance(exchange, GlooExchange):
            exchange.flush()
