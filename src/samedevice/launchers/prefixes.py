"""What people write in front of a program without effect on its launcher or its GPUs. A new one is a row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Prefix:
    """Words that start the command behind them; options are as they are spelled."""

    words: tuple[str, ...]
    source: str
    """Where the facts below are from."""
    flags: frozenset[str] = frozenset()
    values: frozenset[str] = frozenset()
    """Options that take a value, which may also stand behind a `=`."""
    module: tuple[str, ...] = ()
    """Options of which the value is a module to run."""
    script: tuple[str, ...] = ()
    """Options that say that a Python script follows."""
    operands: int = 0
    """Words of its own that follow its options."""
    environment: bool = False
    """It runs the command in a Python environment that it chooses."""
    assigns: bool = False
    """Assignments may follow."""


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


PREFIXES = (
    Prefix(("env",), "env(1)", assigns=True),
    Prefix(("exec",), "bash(1)"),
    Prefix(("command",), "bash(1)"),
    Prefix(("nohup",), "nohup(1)"),
    Prefix(("time",), "bash(1), time(1)", flags=_words("-p -v --verbose --portability")),
    Prefix(("nice",), "nice(1)", values=_words("-n --adjustment")),
    Prefix(("ionice",), "ionice(1)", values=_words("-c -n --class --classdata")),
    Prefix(
        ("timeout",),
        "timeout(1)",
        flags=_words("--foreground --preserve-status -v --verbose"),
        values=_words("-k --kill-after -s --signal"),
        operands=1,
    ),
    Prefix(
        ("numactl",),
        "numactl(8)",
        flags=_words("-l --localalloc"),
        values=_words("-N --cpunodebind -C --physcpubind -m --membind -i --interleave -p --preferred"),
    ),
    Prefix(
        ("uv", "run"),
        "docs.astral.sh/uv/reference/cli",
        flags=_words(
            "--frozen --locked --no-sync --exact --no-project --isolated --active --all-extras --all-groups "
            "--all-packages --dev --no-dev --only-dev --no-editable --no-env-file --no-config --offline -q "
            "--quiet -v --verbose -n --no-cache --managed-python --no-managed-python"
        ),
        values=_words(
            "--with -w --with-editable --with-requirements --extra --no-extra --group --no-group "
            "--only-group --package -p --python --project --index --default-index --find-links -f"
        ),
        module=("-m", "--module"),
        script=("-s", "--script"),
        environment=True,
    ),
    Prefix(("poetry", "run"), "python-poetry.org/docs/cli", environment=True),
    Prefix(("pipenv", "run"), "pipenv.pypa.io", environment=True),
    Prefix(("pdm", "run"), "pdm-project.org", environment=True),
    Prefix(("rye", "run"), "rye.astral.sh", environment=True),
    Prefix(("hatch", "run"), "hatch.pypa.io", environment=True),
    Prefix(("pixi", "run"), "pixi.sh", values=_words("-e --environment"), environment=True),
    *(
        Prefix(
            (name, "run"),
            "docs.conda.io",
            flags=_words("--no-capture-output --live-stream -v --verbose"),
            values=_words("-n --name -p --prefix"),
            environment=True,
        )
        for name in ("conda", "mamba", "micromamba")
    ),
)


def prefix_at(words: Sequence[str]) -> Prefix | None:
    """The prefix that a command begins with."""
    given = (*(Path(word).name for word in words[:1]), *words[1:])
    return next((row for row in PREFIXES if given[: len(row.words)] == row.words), None)
