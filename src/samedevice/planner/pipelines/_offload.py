"""Ways of diffusers to keep a pipeline on the host, from which its parts come to one GPU when they run.

Source: `diffusers/pipelines/pipeline_utils.py` (0.42), `enable_model_cpu_offload`, `enable_group_offload`,
`enable_sequential_cpu_offload`; `enable_tiling` of the autoencoders.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

AUTOENCODER = "vae"
"""The component that diffusers' pipelines call so, whose tiles they let users choose."""


@dataclass(frozen=True, slots=True)
class Offload:
    """One way, as a program asks for it."""

    method: str
    """Of the pipeline."""
    device: str
    """What the method calls the GPU."""
    arguments: Mapping[str, Any] = field(default_factory=dict)
    whole: bool = False
    """Whether a component comes as a whole."""
    tiled: bool = False
    """Whether the autoencoder works on tiles, too; pictures then differ a little at their seams."""

    def enable(self, pipe: Any, gpu: int) -> None:
        """Ask a pipeline for it."""
        if self.tiled:
            getattr(pipe, AUTOENCODER).enable_tiling()
        getattr(pipe, self.method)(**{self.device: f"cuda:{gpu}"}, **self.arguments)

    def lines(self, gpu: int) -> list[str]:
        """The same in Python."""
        tiling = [f"pipe.{AUTOENCODER}.enable_tiling()"] if self.tiled else []
        return [*tiling, f"pipe.{self.call({self.device: f'cuda:{gpu}'})}"]

    def call(self, given: Mapping[str, Any] | None = None) -> str:
        """The method with its arguments, and with these before them."""
        arguments = {**(given or {}), **self.arguments}
        return f"{self.method}({', '.join(f'{name}={value!r}' for name, value in arguments.items())})"


OFFLOADS = (
    Offload("enable_model_cpu_offload", "device", whole=True),
    Offload(
        "enable_group_offload",
        "onload_device",
        {"offload_type": "block_level", "num_blocks_per_group": 1},
    ),
    Offload("enable_group_offload", "onload_device", {"offload_type": "leaf_level"}),
    Offload("enable_sequential_cpu_offload", "device"),
)
"""The fastest first, by how much they move at once."""


def tiled(offload: Offload) -> Offload:
    """The same with an autoencoder that works on tiles."""
    return replace(offload, tiled=True)
