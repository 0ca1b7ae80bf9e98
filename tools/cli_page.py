"""Write what every command says of itself into `docs/cli.md` and `docs/cli.zh.md`.

python -m tools.cli_page            # write
python -m tools.cli_page --check    # exit status 1 when a page is stale

What is between `<!-- commands -->` and `<!-- end -->` is written here. The Chinese texts are in
`docs/cli.zh.toml`, by the English ones: where the English changes, the page shows it in English until the
Chinese follows.
"""

from __future__ import annotations

import argparse
import re
import sys
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import typer
from typer.core import TyperArgument, TyperCommand, TyperOption

from samedevice.cli._app import app
from samedevice.messages import SOURCE, Language

DOCS = Path(__file__).resolve().parents[1] / "docs"
PAGES: Mapping[Language, Path] = {SOURCE: DOCS / "cli.md", "zh": DOCS / "cli.zh.md"}
TEXTS = DOCS / "cli.zh.toml"
HEADS: Mapping[Language, str] = {SOURCE: "| option | meaning |", "zh": "| 选项 | 含义 |"}
ARGUMENT_HEADS: Mapping[Language, str] = {SOURCE: "| argument | meaning |", "zh": "| 参数 | 含义 |"}
DEFAULTS: Mapping[Language, str] = {SOURCE: " Default: `{}`.", "zh": "默认 `{}`。"}

MORE: Mapping[Language, str] = {SOURCE: "More: [{}]({}).", "zh": "详见[{}]({})。"}

_PLACE = re.compile(r"<!-- commands -->\n.*?<!-- end -->", re.DOTALL)


def commands() -> dict[str, TyperCommand]:
    """The commands by their names; one of a group is named with its group, as people type it."""
    return dict(_commands_of(typer.main.get_command(app), ""))


def _commands_of(group: Any, before: str) -> Iterator[tuple[str, TyperCommand]]:
    for name, command in group.commands.items():
        if command.hidden:
            continue
        if hasattr(command, "commands"):
            yield from _commands_of(command, f"{before}{name} ")
        else:
            yield f"{before}{name}", command


def help_of(name: str, language: Language, told: Mapping[str, str]) -> str:
    """What a command says of itself, as Markdown: how it is called, what it does, its options, its status."""
    command = commands()[name]
    context = typer.Context(command, info_name=f"samedevice {name}")
    usage = " ".join([f"samedevice {name}", *command.collect_usage_pieces(context)])
    paragraphs = (command.help or "").split("\n\n")
    parts = [f"```text\n{usage}\n```", *(_said(paragraph, told) for paragraph in paragraphs)]
    shown = [each for each in command.get_params(context) if not getattr(each, "hidden", False)]
    arguments = [_argument(each, told) for each in shown if isinstance(each, TyperArgument)]
    options = [_option(each, language, told) for each in shown if isinstance(each, TyperOption)]
    for head, rows in ((ARGUMENT_HEADS[language], arguments), (HEADS[language], options)):
        if rows:
            parts.append("\n".join([head, "|---|---|", *rows]))
    if command.epilog:
        parts.append(_said(command.epilog, told))
    page = DOCS / (f"{name}.md" if language == SOURCE else f"{name}.{language}.md")
    if page.is_file():
        title = page.read_text("utf-8").partition("\n")[0].removeprefix("# ")
        parts.append(MORE[language].format(title, page.name))
    return "\n\n".join(parts)


def filled(page: str, language: Language) -> str:
    """The page with every command's help in its place."""
    told = chinese() if language != SOURCE else {}
    parts = [f"## `samedevice {name}`\n\n{help_of(name, language, told)}" for name in commands()]
    return _PLACE.sub(lambda _: "\n\n".join(["<!-- commands -->", *parts, "<!-- end -->"]), page)


def chinese() -> dict[str, str]:
    """The Chinese texts by the English ones."""
    texts: dict[str, str] = tomllib.loads(TEXTS.read_text("utf-8"))
    return texts


def untold() -> list[str]:
    """English texts of the command line that have no Chinese."""
    told = chinese()
    return sorted(text for text in _texts() if text not in told)


def _texts() -> set[str]:
    found: set[str] = set()
    for command in commands().values():
        context = typer.Context(command)
        found |= {_line(paragraph) for paragraph in (command.help or "").split("\n\n")}
        found |= {_line(command.epilog or "")}
        found |= {_line(getattr(each, "help", None) or "") for each in command.get_params(context)}
    return found - {""}


def _argument(argument: TyperArgument, told: Mapping[str, str]) -> str:
    name = argument.metavar or argument.name or ""
    return f"| `{_cell(name)}` | {_cell(_said(argument.help or '', told))} |"


def _option(option: TyperOption, language: Language, told: Mapping[str, str]) -> str:
    spelled = ", ".join(f"`{name}`" for name in (*option.opts, *option.secondary_opts))
    if not option.is_flag and option.metavar:
        spelled = f"{spelled[:-1]} {option.metavar}`"
    text = _said(option.help or "", told)
    default = option.show_default if isinstance(option.show_default, str) else option.default
    if option.show_default and default not in (None, False, ()):
        text += DEFAULTS[language].format(default)
    return f"| {_cell(spelled)} | {_cell(text)} |"


def _said(text: str, told: Mapping[str, str]) -> str:
    return told.get(_line(text), _line(text))


def _line(text: str) -> str:
    return " ".join(text.split())


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def main(arguments: list[str] | None = None) -> int:
    """Write or check the pages."""
    parser = argparse.ArgumentParser(prog="python -m tools.cli_page", description=main.__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing, tell what is stale")
    check = parser.parse_args(arguments).check
    status = 0
    for language, path in PAGES.items():
        page = path.read_text("utf-8")
        fresh = filled(page, language)
        if not check:
            path.write_text(fresh, "utf-8")
        elif fresh != page:
            print(f"stale: docs/{path.name}; run python -m tools.cli_page", file=sys.stderr)
            status = 1
    for text in untold():
        print(f"no Chinese in docs/{TEXTS.name}: {text}", file=sys.stderr)
    return status


if __name__ == "__main__":
    sys.exit(main())
