"""Training programs that are installed: what they do with processes and maps.

Facts about published programs, each with its source; a script's own code is read instead wherever it is at
hand.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Tool:
    """One command-line program for training."""

    name: str
    verbs: frozenset[str]
    """First words that train."""
    starts_processes: bool
    """Without being told, it starts one process per visible GPU."""
    maps_alone: bool
    """As one process with several GPUs, it spreads the model with `device_map="auto"`."""
    mapped_by: tuple[str, ...] = ()
    """Options that make it pass a map of its own, so that ZeRO-3 refuses."""
    source: str = ""


TOOLS: dict[str, Tool] = {
    tool.name: tool
    for tool in (
        Tool(
            "llamafactory-cli",
            frozenset({"train"}),
            starts_processes=True,
            maps_alone=False,
            mapped_by=("use_unsloth",),
            source="LLaMA-Factory: src/llamafactory/cli.py (torchrun when several devices are visible), "
            "model/model_utils/unsloth.py",
        ),
        Tool(
            "swift",
            frozenset({"sft", "pt", "rlhf", "dpo"}),
            starts_processes=False,
            maps_alone=True,
            source="ms-swift: swift/cli/main.py (torchrun only when NPROC_PER_NODE is in the environment)",
        ),
        Tool(
            "axolotl",
            frozenset({"train"}),
            starts_processes=True,
            maps_alone=False,
            source="axolotl: cli/train.py (accelerate launch)",
        ),
    )
}
TOOLS["lmf"] = TOOLS["llamafactory-cli"]


def begins_tool(words: Sequence[str]) -> bool:
    """Whether words begin with an installed program that is known, and with what trains."""
    tool = TOOLS.get(words[0]) if words else None
    return tool is not None and words[1:2] != () and words[1] in tool.verbs
