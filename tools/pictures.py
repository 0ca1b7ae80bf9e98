"""Draw the terminal pictures of README and site: each is a command that is run, and what it printed.

python -m tools.pictures            # all, into docs/pictures; the large models take a minute or two
python -m tools.pictures two-gpus   # those that are named
"""

from __future__ import annotations

import argparse
import html
import io
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from rich.cells import cell_len
from rich.console import Console
from rich.terminal_theme import TerminalTheme
from rich.text import Text

from samedevice.messages import SOURCE, Language, languages

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "docs" / "pictures"
COLUMNS = 100
FONTS = (
    "ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', 'Noto Sans Mono CJK SC', monospace"
)

CELL = 12.2
"""Width of one character in what rich draws."""
_RUN = re.compile(r'(<text [^>]*?\bx=")([\d.]+)("[^>]*?\btextLength=")[\d.]+("[^>]*>)(.*?)</text>')
_WIDE = r"\u2e80-\u9fff\uff00-\uffef"
_PIECES = re.compile(rf"[{_WIDE}]+| +|[^ {_WIDE}]+(?: [^ {_WIDE}]+)*")
"""Chinese, spaces, or words."""


@dataclass(frozen=True, slots=True)
class Picture:
    """A command line, run in the repository, and how its picture is named."""

    name: str
    command: str
    status: int
    """The exit status that it must have."""


PICTURES = (
    Picture("two-gpus", "samedevice run --machine 2x24GB examples/two_gpus.py", 1),
    Picture("giants", "samedevice run --machine 16xH200 examples/giants/generate.py DeepSeek-V3", 0),
    Picture("explain", "samedevice explain corpus/pasted/bigscience-workshop-petals-575.txt", 0),
    Picture(
        "preflight",
        "samedevice preflight examples/preflight/refused/peft_306/launch.sh --machine 8xA100-80G",
        1,
    ),
)

THEME = TerminalTheme(
    (22, 27, 34),
    (230, 237, 243),
    [
        (72, 79, 88),
        (255, 123, 114),
        (126, 231, 135),
        (227, 179, 65),
        (121, 192, 255),
        (210, 168, 255),
        (86, 212, 221),
        (230, 237, 243),
    ],
)


def shown_as(picture: Picture, language: Language) -> str:
    """The command as the picture shows it."""
    if language == SOURCE:
        return picture.command
    program, verb, *rest = picture.command.split(" ")
    return " ".join([program, verb, "--lang", language, *rest])


def run(picture: Picture, language: Language) -> str:
    """What the command prints on a terminal with colours; raises when it ends with another status."""
    words = shlex.split(shown_as(picture, language))
    done = subprocess.run(
        [sys.executable, "-m", *words],
        cwd=ROOT,
        env={**os.environ, **_terminal()},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        check=False,
    )
    if done.returncode != picture.status:
        raise SystemExit(f"{shlex.join(words)}: status {done.returncode}\n{done.stdout}")
    return done.stdout


def _terminal() -> Mapping[str, str]:
    return {
        "COLUMNS": str(COLUMNS),
        "FORCE_COLOR": "1",
        "LC_ALL": "C.UTF-8",
        "PYTHONUNBUFFERED": "1",
        "PYTHONIOENCODING": "utf-8",
        "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)]),
    }


def drawn(picture: Picture, language: Language, printed: str) -> str:
    """The picture as SVG, with no font from another host."""
    text = Text.assemble(("$ ", "bold green"), (shown_as(picture, language), "bold"), "\n")
    text.append_text(Text.from_ansi(printed.rstrip("\n")))
    width = max(cell_len(line) for line in text.plain.splitlines())
    console = Console(
        record=True, width=width, file=io.StringIO(), force_terminal=True, color_system="truecolor"
    )
    console.print(text, soft_wrap=True)
    svg = console.export_svg(title="samedevice", theme=THEME, unique_id=f"{picture.name}-{language}")
    svg = re.sub(r"@font-face \{.*?\}\s*", "", svg, flags=re.DOTALL)
    svg = re.sub(r"font-family: [^;]*;", f"font-family: {FONTS};", svg)
    svg = _RUN.sub(_without_spaces, svg)
    return re.sub(r"[ \t]+$", "", svg, flags=re.MULTILINE) + "\n"


def _without_spaces(text: re.Match[str]) -> str:
    """A run of text as a piece for each script: leading spaces are left out by some viewers, and rich takes
    a Chinese character to be as wide as a Latin one.
    """
    head, x, middle, end, content = text.groups()
    at, pieces = float(x), []
    for piece in _PIECES.findall(html.unescape(content).replace("\xa0", " ")):
        width = cell_len(piece) * CELL
        if piece.strip():
            shown = html.escape(piece).replace(" ", "&#160;")
            stretched = '" lengthAdjust="spacingAndGlyphs' if width > len(piece) * CELL else ""
            pieces.append(f"{head}{at:g}{middle}{width:g}{stretched}{end}{shown}</text>")
        at += width
    return "".join(pieces)


def path_of(picture: Picture, language: Language) -> Path:
    """Where a picture is kept."""
    return FOLDER / (f"{picture.name}.svg" if language == SOURCE else f"{picture.name}.{language}.svg")


def main(arguments: list[str] | None = None) -> int:
    """Draw the pictures."""
    parser = argparse.ArgumentParser(prog="python -m tools.pictures", description=main.__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="the pictures to draw")
    names = parser.parse_args(arguments).names
    if unknown := set(names) - {picture.name for picture in PICTURES}:
        parser.error(f"no picture {', '.join(sorted(unknown))}")
    FOLDER.mkdir(exist_ok=True)
    for picture in PICTURES:
        for language in languages() if not names or picture.name in names else ():
            path = path_of(picture, language)
            path.write_text(drawn(picture, language, run(picture, language)), "utf-8")
            print(f"{path.relative_to(ROOT)}  {path.stat().st_size // 1024} KiB", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
