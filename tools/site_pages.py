"""Gather the pages of the site, as a hook of MkDocs: docs/, a page for each rule, and each file they link to.

MkDocs builds from a folder, and accepts no link that leaves it. The pages in docs/ are also read on the
hosting site, where links to scripts and to the files of the rules are right. So each page is copied to
`build/pages` with its links rewritten: a link to a rule's file leads to the rule's page, and a link to any
other file of the repository leads to a page that shows this file.
"""

from __future__ import annotations

import posixpath
import re
import shutil
from pathlib import Path
from typing import Any

from samedevice.messages import languages
from samedevice.report import pages
from samedevice.rulebook import every_rule
from tools.pages import page_name

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
GATHERED = ROOT / "build" / "pages"
RULE_FILES = ("src/samedevice/diagnosis/rules", "src/samedevice/lint/rules")
ALWAYS_SHOWN = ("CHANGELOG.md", "CONTRIBUTING.md")
LEXERS = {".py": "python", ".sh": "bash", ".json": "json", ".yaml": "yaml", ".yml": "yaml", ".toml": "toml"}
TRANSLATED = re.compile(r"\.([a-z]{2})\.md$")

_FENCE = re.compile(r"^( *)(```+)([^\n]*)\n(.*?)^\1\2$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"(!?\[[^\]\n]*\]\()([^)\s]+)(\))")
_CELL_CODE = re.compile(r"`[^`\n]*\\\|[^`\n]*`")
"""Code in a table: the hosting site wants `|` escaped there, and Python's Markdown does not."""
_WIDE = r"[\u3000-\u303f\u3400-\u9fff\uff00-\uffef]"
_BROKEN_LINE = re.compile(rf"(?<={_WIDE})\n(?={_WIDE})")
_NOTES = {"zh": '!!! note ""\n    本页只有英文。\n\n'}
"""What a page that exists in English only says first, by the language of the site."""


def on_config(config: Any) -> Any:
    """Gather the pages and let MkDocs build from there."""
    gather(GATHERED)
    config["docs_dir"] = str(GATHERED)
    return config


def on_page_markdown(markdown: str, *, page: Any, config: Any, files: Any) -> str:
    """Say on a page of another language's site that it is in English."""
    language = config.theme["language"]
    source = str(page.file.src_uri)
    told = _NOTES.get(language, "")
    return markdown if not told or source.endswith(f".{language}.md") else _below_title(markdown, told)


def gather(folder: Path) -> None:
    """Write every page of the site into the folder, and remove what is there besides."""
    content: dict[str, str | Path] = {}
    for path in sorted(DOCS.rglob("*")):
        name = path.relative_to(DOCS).as_posix()
        if path.is_dir() or name.startswith("rules/"):
            continue
        content[name] = path if path.suffix != ".md" else path.read_text("utf-8")
    for language in languages():
        for name, page in pages(language).items():
            content[f"rules/{page_name(name.replace('README', 'index'), language)}"] = page
    shown: set[str] = set()
    waiting = list(ALWAYS_SHOWN)
    for name, text in list(content.items()):
        if isinstance(text, str):
            content[name] = _page(text, f"docs/{name}", name, waiting)
    while waiting:
        wanted = waiting.pop()
        if wanted not in shown:
            shown.add(wanted)
            content[_shown_at(wanted)] = _file_page(wanted, _shown_at(wanted), waiting)
    _write(folder, content)


def _write(folder: Path, content: dict[str, str | Path]) -> None:
    """Write what changed, so that `mkdocs serve` does not build again for nothing."""
    for name, text in content.items():
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        data = text.read_bytes() if isinstance(text, Path) else text.encode()
        if not target.is_file() or target.read_bytes() != data:
            target.write_bytes(data)
    for path in sorted(folder.rglob("*"), reverse=True):
        if path.is_file() and path.relative_to(folder).as_posix() not in content:
            path.unlink()
        elif path.is_dir() and not any(path.iterdir()):
            shutil.rmtree(path)


def _page(text: str, source: str, name: str, waiting: list[str]) -> str:
    """A page as the site has it; `source` is its path in the repository, `name` its path in the site."""
    parts: list[str] = []
    end = 0
    for fence in _FENCE.finditer(text):
        parts += [_prose(text[end : fence.start()], source, name, waiting), _code(fence)]
        end = fence.end()
    return "".join([*parts, _prose(text[end:], source, name, waiting)])


def _prose(text: str, source: str, name: str, waiting: list[str]) -> str:
    def led(link: re.Match[str]) -> str:
        return f"{link[1]}{_target(link[2], source, name, waiting)}{link[3]}"

    text = _CELL_CODE.sub(lambda code: code[0].replace("\\|", "|"), text)
    return _BROKEN_LINE.sub("", _LINK.sub(led, text))


def _code(fence: re.Match[str]) -> str:
    """A fenced block whose words behind the language are ours: only a file name is shown, as its title."""
    indent, ticks, info, body = fence.groups()
    words = info.split()
    title = next((word.partition("=")[2] for word in words[1:] if word.startswith("file=")), "")
    head = f'{words[0]} title="{title}"' if title else words[0] if words else "text"
    return f"{indent}{ticks}{head}\n{body}{indent}{ticks}"


def _target(link: str, source: str, name: str, waiting: list[str]) -> str:
    """Where a link of the page leads in the site."""
    if re.match(r"[a-z]+:|#", link):
        return link
    path, hash_, anchor = link.partition("#")
    wanted = posixpath.normpath(posixpath.join(posixpath.dirname(source), path))
    if wanted.startswith("docs/") and (ROOT / wanted).exists():
        page = TRANSLATED.sub(".md", wanted.removeprefix("docs/"))
    elif wanted.startswith("docs/rules/"):
        page = wanted.removeprefix("docs/").replace("README", "index")
    elif wanted in RULE_FILES:
        page = "rules/index.md"
    elif rule := next((rule for rule in every_rule() if wanted in _files_of(rule.name)), None):
        page = f"rules/{rule.code}.md"
    elif (ROOT / wanted).is_file():
        waiting.append(wanted)
        page = _shown_at(wanted)
    else:
        return link  # MkDocs tells of it
    return posixpath.relpath(page, posixpath.dirname(name) or ".") + hash_ + anchor


def _files_of(rule: str) -> list[str]:
    return [f"{folder}/{rule.replace('-', '_')}.py" for folder in RULE_FILES]


def _shown_at(path: str) -> str:
    """The page that shows a file of the repository."""
    return f"repository/{path}" if path.endswith(".md") else f"repository/{path}.md"


def _file_page(path: str, name: str, waiting: list[str]) -> str:
    text = (ROOT / path).read_text("utf-8")
    if path.endswith(".md"):
        return _page(text, path, name, waiting)
    lexer = LEXERS.get(Path(path).suffix, "text")
    return f"# {posixpath.basename(path)}\n\n`{path}`\n\n````{lexer}\n{text.rstrip()}\n````\n"


def _below_title(markdown: str, told: str) -> str:
    title, line, rest = markdown.partition("\n")
    return f"{title}{line}\n{told}{rest}" if title.startswith("# ") else f"{told}{markdown}"
