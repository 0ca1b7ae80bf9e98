"""The commands, by group; what each claims, its time and its needs stand in its module's docstring.

Must guarantee: listing them imports none of them. A command is the module `evidence.GROUP.NAME` (a dash in a
name is an underscore there) with a function `main(arguments) -> exit status`. Its docstring begins with the
claim in one sentence; then come a line `Time:`, for two cores, and a line `Needs:`.
"""

from __future__ import annotations

import argparse
import ast
import importlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

GROUPS: Mapping[str, tuple[str, ...]] = {
    "bugs": (
        "situations",
        "corpus",
        "programs",
        "answers",
        "guarded-programs",
        "real-runs",
        "tracebacks",
        "repro",
    ),
    "found": ("found",),
    "zoo": ("zoo", "causes", "fixes", "heal-zoo", "mutations"),
    "lint": ("lint-zoo", "lint-libraries", "lint-mutants", "static-claims"),
    "healing": ("heal-proof", "compile-proof"),
    "engine": ("op-db-sweep", "model-sweep", "record-rules", "replay-rules", "hardware-proof"),
    "peers": ("peers", "cuda-builds", "petals-proof", "stand-ins"),
    "memory": (
        "memory-sweep",
        "memory-plans",
        "plans",
        "pipeline-plans",
        "plan-families",
        "deepspeed-estimates",
        "record-memory",
        "replay-memory",
        "memory-truth",
    ),
    "launches": ("preflight-cases", "preflight-runs", "launch-proof", "plan-launches"),
    "costs": ("start-cost", "forward-cost", "generate-cost", "guard-cost", "leaks", "benchmarks"),
    "environments": ("overlays", "example-models", "packages", "versions", "doctor"),
}
"""The names of the commands, by the package that they are in; a group's title is that package's docstring."""
_FOLDER = Path(__file__).parent


@dataclass(frozen=True, slots=True)
class Command:
    """What is known of a command without importing it."""

    name: str
    group: str
    claim: str
    time: str
    needs: str

    @property
    def module(self) -> str:
        """The module's full name."""
        return f"evidence.{self.group}.{self.name.replace('-', '_')}"

    def main(self, arguments: Sequence[str]) -> int:
        """Run it; the exit status."""
        status: int = importlib.import_module(self.module).main(arguments)
        return status


def commands() -> list[Command]:
    """All commands, in the order of the groups."""
    return [_described(name, group) for group, names in GROUPS.items() for name in names]


def title(group: str) -> str:
    """What a group proves."""
    return _docstring(_FOLDER / group / "__init__.py").strip()


def command_parser(module: str, docstring: str | None) -> argparse.ArgumentParser:
    """The parser of the command in `module`; its help is the docstring, one text in one place."""
    name = module.rpartition(".")[2].replace("_", "-")
    return argparse.ArgumentParser(
        prog=f"python -m evidence {name}",
        description=docstring,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )


def _described(name: str, group: str) -> Command:
    text = _docstring(_FOLDER / group / f"{name.replace('-', '_')}.py")
    claim, _, rest = text.partition("\n\n")
    terms = dict(line.partition(": ")[::2] for line in rest.partition("\n\n")[0].splitlines())
    return Command(name, group, " ".join(claim.split()), terms["Time"], terms["Needs"])


def _docstring(path: Path) -> str:
    return ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
