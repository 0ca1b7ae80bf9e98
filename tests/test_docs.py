"""The documentation says what is there: links lead somewhere, snippets run, captured output is what the tool
prints now.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest
import typer
from rich.cells import cell_len

from samedevice.cli._app import app
from samedevice.launchers import begins_command
from samedevice.messages import languages
from tools import cli_page, pictures, readme

ROOT = Path(__file__).parents[1]
PAGES = sorted(
    [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), ROOT / "src" / "evidence" / "zoo" / "README.md"]
)
READMES = list(readme.READMES.values())
COMMANDS = typer.main.get_command(app).commands

_FENCE = re.compile(r"^```([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\[[^\]\n]*\]\(([^)\s]+)\)")
_CODE = re.compile(r"`([^`\n]+)`")


def text_of(page):
    return page.read_text("utf-8")


def fences(page):
    """(words behind the opening, content) of each fenced block."""
    return [(info.split(), body) for info, body in _FENCE.findall(text_of(page))]


def prose(page):
    return _FENCE.sub("", text_of(page))


def anchors(page):
    """The anchors that GitHub gives the headings of a page."""
    headings = re.findall(r"^#+ (.+)$", prose(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def commands_in(page):
    """Each mention of `samedevice ...` in code, as words."""
    lines = [line for _, body in fences(page) for line in body.splitlines()] + _CODE.findall(prose(page))
    return [
        line.removeprefix("$ ").split() for line in lines if re.match(r"(\$ )?samedevice [a-z\-\[]", line)
    ]


def run(folder, *words):
    variables = {
        name: value
        for name, value in os.environ.items()
        if name not in ("COLUMNS", "FORCE_COLOR", "TTY_COMPATIBLE")
    }
    return subprocess.run(
        [sys.executable, *words],
        cwd=folder,
        env={
            **variables,
            "PYTHONPATH": str(ROOT / "src"),
            "PYTHONIOENCODING": "utf-8",
            "PYTHONHASHSEED": "0",
        },
        capture_output=True,
        encoding="utf-8",
        timeout=120,
        check=False,
    )


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page):
    for link in _LINK.findall(prose(page)):
        if link.startswith(("https://", "http://")):
            continue
        name, _, anchor = link.partition("#")
        target = (page.parent / name).resolve() if name else page
        assert target.exists(), link
        assert not anchor or anchor in anchors(target), link


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_commands_and_options_exist(page):
    for words in commands_in(page):
        if words[1].startswith("-"):
            assert words[1] in ("--version", "--help", "-h", "--install-completion"), words
            continue
        assert words[1] in COMMANDS, words
        known = {option for parameter in COMMANDS[words[1]].params for option in parameter.opts} | {
            "--help",
            "-h",
        }
        for position, word in enumerate(words[2:], 2):
            if word == "-" or word.endswith(".py") or begins_command(words[position:]):
                break  # the program's own options come behind it
            assert not word.startswith("-") or word in known, words


@pytest.mark.parametrize(("language", "page"), cli_page.PAGES.items())
def test_every_command_is_documented_by_its_own_help(language, page):
    told = text_of(page)
    for name, command in cli_page.commands().items():
        assert f"## `samedevice {name}`" in told, name
        for parameter in command.params:
            for option in parameter.opts:
                assert not option.startswith("-") or f"`{option}" in told, option
    assert told == cli_page.filled(told, language), "stale: run python -m tools.cli_page"


def test_a_stale_page_is_noticed():
    stale = text_of(cli_page.PAGES["en"]).replace("--fail-fast", "--fail")
    assert cli_page.filled(stale, "en") != stale


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_make_targets_exist(page):
    targets = set(re.findall(r"^([a-z-]+):", text_of(ROOT / "Makefile"), re.MULTILINE))
    lines = [line for _, body in fences(page) for line in body.splitlines()] + _CODE.findall(prose(page))
    named = [line.split()[1] for line in lines if re.match(r"make [a-z]", line)]
    assert set(named) <= targets


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_notes_and_modules_exist(page):
    text = " ".join(prose(page).split())
    package = ROOT / "src" / "samedevice"
    for name in re.findall(r"`(?:src/samedevice/)?((?:[a-z_]+/)+[a-z_]+\.py)`", text):
        if (package / name.partition("/")[0]).is_dir():
            assert (package / name).exists(), name
    noted = {
        f"Note [{name}]"
        for path in package.rglob("*.py")
        for name in re.findall(r"^ *Note \[(.+)\]$", text_of(path), re.M)
    }
    assert set(re.findall(r"Note \[[^\]]+\]", text)) - {"Note [Name]"} <= noted
    for note, name in re.findall(r"(Note \[[^\]]+\]) \| `(.+?)`", text):
        assert note in text_of(package / name)


@pytest.mark.parametrize(
    ("page", "code"),
    [(page, body) for page in PAGES for info, body in fences(page) if info[:2] == ["python", "run"]],
    ids=lambda value: value.name if isinstance(value, Path) else "",
)
@pytest.mark.usefixtures("warm")
def test_snippets_run(page, code, tmp_path):
    done = run(tmp_path, "-c", code)
    assert done.returncode == 0, done.stderr
    for expected in re.findall(r"^print\(.*\)  # (.+)$", code, re.MULTILINE):
        assert expected in done.stdout


@pytest.mark.parametrize(("language", "page"), readme.READMES.items())
def test_the_run_of_the_readme_prints_what_the_page_says(language, page):
    assert text_of(page) == readme.filled(text_of(page), language), "stale: run make docs"
    output = next(body for info, body in fences(page) if "output=two_gpus.py" in info)
    assert len(output.splitlines()) <= 20
    assert max(map(cell_len, output.splitlines())) <= 100


def without_comments(code):
    return re.sub(r"\s*#.*", "", code)


@pytest.mark.parametrize("page", sorted(ROOT.glob("docs/**/*.zh.md")), ids=lambda page: page.name)
def test_code_of_a_chinese_page_stands_in_the_english_one(page):
    english = without_comments(text_of(page.with_name(page.name.replace(".zh.md", ".md"))))
    for info, body in fences(page):
        for line in without_comments(body).splitlines() if info[:1] == ["python"] else ():
            assert line.replace(', "zh"', "").strip() in english, line


PICTURES = sorted(ROOT.glob("docs/pictures/*.svg"))


def test_each_picture_is_drawn_by_the_command_and_shown():
    drawn = {pictures.path_of(each, language) for each in pictures.PICTURES for language in languages()}
    shown = {
        (page.parent / link).resolve()
        for page in PAGES
        for link in _LINK.findall(text_of(page))
        if "svg" in link
    }
    assert set(PICTURES) == drawn == shown


@pytest.mark.parametrize("path", PICTURES, ids=lambda path: path.name)
def test_a_picture_is_small_and_loads_nothing(path):
    text = text_of(path)
    ElementTree.fromstring(text)
    assert len(text.encode()) < 40_000
    assert not re.search(r"url\([^#]|href|<image|<script", text)


def test_a_picture_shows_what_the_command_prints_now():
    picture = next(each for each in pictures.PICTURES if each.name == "two-gpus")
    for language in languages():
        now = pictures.drawn(picture, language, pictures.run(picture, language))
        assert now == text_of(pictures.path_of(picture, language)), "stale: run make pictures"


def test_every_page_is_in_the_navigation_of_the_site():
    site = text_of(ROOT / "mkdocs.yml")
    for page in ROOT.glob("docs/**/*.md"):
        name = page.relative_to(ROOT / "docs").as_posix()
        listed_elsewhere = re.match("rules/|decisions/0|found/[a-z]", name)
        if not listed_elsewhere and not name.endswith(".zh.md"):
            assert re.search(rf": {re.escape(name)}$", site, re.MULTILINE), name
    for title in re.findall(r'^ +- "?([^\n":]+(?:: [^\n":]+)?)"?: [a-zA-Z0-9/-]+\.md$', site, re.MULTILINE):
        assert re.search(rf'^ +"?{re.escape(title)}"?: .*[\u4e00-\u9fff]', site, re.MULTILINE), title


def test_both_readmes_have_the_same_parts():
    english, chinese = (
        [line.partition(" ")[0] for line in prose(page).splitlines() if line.startswith(("#", "| [S", "- "))]
        for page in READMES
    )
    assert english == chinese
    code = [
        [body for info, body in fences(page) if "lang=zh" not in info and info[:1] != ["text"]]
        for page in READMES
    ]
    assert code[0] == code[1]


def test_the_changelog_says_each_thing_once():
    """Where two lines begin alike, a merge has kept an older text of one."""
    entries = [
        line for line in (ROOT / "CHANGELOG.md").read_text("utf-8").splitlines() if line.startswith("- ")
    ]
    beginnings = [line[:58] for line in entries]
    assert sorted(beginnings) == sorted(set(beginnings))
