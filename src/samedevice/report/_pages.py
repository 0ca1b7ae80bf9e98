"""A rule's page as Markdown: its heading, a summary in the reader's language, and the rule's own text."""

from __future__ import annotations

from samedevice.diagnosis import CAUSES, CODES, REFUSALS, RULES, Rule
from samedevice.messages import SOURCE, Language, Phrase, catalogue, languages
from samedevice.report._render import render


def page_text(rule: Rule, language: Language = SOURCE) -> str:
    """The whole page. The summary is in `language`; the text below it is English."""
    first, _, rest = rule.page.strip().partition("\n\n")
    head = [f"# {rule.code} {rule.name}", *([first] if language == SOURCE else []), _summary(rule, language)]
    return "\n\n".join([*head, rest.strip()]) + "\n"


def pages() -> dict[str, str]:
    """File name and content of every page that `python -m tools.pages` writes, the index among them."""
    found = {f"{rule.code}.md": _documented(rule) for rule in RULES}
    found["README.md"] = _index()
    return found


def _index() -> str:
    lines = [
        "# Rules",
        "",
        "Made from `src/samedevice/diagnosis/rules/` by `python -m tools.pages`.",
        "",
        "## What happened",
        "",
    ]
    lines += ["| code | name | |", "|---|---|---|", *(_row(rule) for rule in CODES)]
    lines += [
        "",
        "## Why: the causes",
        "",
        "| code | cause | |",
        "|---|---|---|",
        *(_row(rule) for rule in CAUSES),
    ]
    lines += [
        "",
        "## Before it starts: refused launches",
        "",
        "A launch is refused for these, and for some of the causes above.",
        "",
    ]
    lines += ["| code | name | |", "|---|---|---|", *(_row(rule) for rule in REFUSALS)]
    return "\n".join(lines) + "\n"


def _documented(rule: Rule) -> str:
    """A page with its summary in the other languages at its end."""
    others = "".join(
        f"\n## {render(Phrase('language'), language)}\n\n{_summary(rule, language)}\n"
        for language in _languages_of(rule)
        if language != SOURCE
    )
    return f"{page_text(rule)}{others}"


def _summary(rule: Rule, language: Language) -> str:
    parts = {name: rule.phrase(name) for name in ("title", "meaning", "cure")}
    return render(Phrase("page-summary", **parts), language)


def _languages_of(rule: Rule) -> list[Language]:
    """Those that the rule's file has, or a catalogue has for it."""
    return [
        language
        for language in languages()
        if language in rule.title or f"rules.{rule.name}.title" in catalogue(language)
    ]


def _row(rule: Rule) -> str:
    titles = "; ".join(render(rule.phrase("title"), language) for language in _languages_of(rule))
    return f"| [{rule.code}]({rule.code}.md) | {rule.name} | {titles} |"
