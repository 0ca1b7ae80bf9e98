"""Tensors of a batch that share memory still share it when all of them move to one device."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import groupby
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch


@dataclass(slots=True)
class _Piece:
    """A stretch of memory that some tensors reach."""

    first: int
    end: int
    found: list[tuple[str, torch.Tensor, str]] = field(default_factory=list)
    """Path, tensor and wanted device."""
    copies: dict[str, torch.Tensor] = field(default_factory=dict)


class Sharing:
    """Which tensors reach the same memory."""

    def __init__(self, found: list[tuple[str, torch.Tensor, str | None]]) -> None:
        plain = [
            (path, tensor, target or str(tensor.device))
            for path, tensor, target in found
            if _is_plain(tensor)
        ]
        self._pieces: list[_Piece] = []
        self._piece_of: dict[int, _Piece] = {}
        for _, group in groupby(
            sorted(plain, key=lambda each: _memory(each[1])), key=lambda each: _memory(each[1])
        ):
            last: _Piece | None = None
            for each in sorted(group, key=lambda each: each[1].storage_offset()):
                first, end = int(each[1].storage_offset()), _end(each[1])
                if last is None or first >= last.end:
                    last = _Piece(first, end)
                    self._pieces.append(last)
                last.end = max(last.end, end)
                last.found.append(each)
                self._piece_of[id(each[1])] = last

    def parted(self) -> Iterator[list[str]]:
        """The paths of tensors that share memory and are wanted on several devices."""
        for piece in self._pieces:
            if len({target for _, _, target in piece.found}) > 1:
                yield [path for path, _, _ in piece.found]

    def moved(self, tensor: torch.Tensor, target: str) -> torch.Tensor:
        """The tensor on its device, over a copy of the memory that it shares with others."""
        piece = self._piece_of.get(id(tensor))
        if piece is None or all(each is tensor for _, each, wanted in piece.found if wanted == target):
            return tensor.to(target)
        if target not in piece.copies:
            piece.copies[target] = tensor.as_strided((piece.end - piece.first,), (1,), piece.first).to(target)
        return piece.copies[target].as_strided(
            tensor.shape, tensor.stride(), tensor.storage_offset() - piece.first
        )


def _is_plain(tensor: torch.Tensor) -> bool:
    import torch

    odd = (
        tensor.layout != torch.strided
        or type(tensor) is not torch.Tensor
        or tensor.is_quantized
        or tensor.is_conj()
        or tensor.is_neg()
    )
    return not odd and tensor.numel() > 0


def _memory(tensor: torch.Tensor) -> tuple[int, str]:
    return tensor.untyped_storage()._cdata, str(tensor.dtype)


def _end(tensor: torch.Tensor) -> int:
    last = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
    return int(tensor.storage_offset()) + last + 1
