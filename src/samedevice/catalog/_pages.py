"""A rule's page as Markdown: its heading, a summary in the reader's language, and the rule's own text."""

from __future__ import annotations

from samedevice.diagnosis import CAUSES, CODES, REFUSALS, RULES, Rule, rule_named
from samedevice.messages import Language, say


def find_rule(word: str) -> Rule | None:
    """The rule with this code or name, in any case."""
    wanted = word.strip()
    for rule in RULES:
        if wanted.upper() == rule.code:
            return rule
    try:
        return rule_named(wanted.lower())
    except KeyError:
        return None


def page_text(rule: Rule, language: Language = "en") -> str:
    """The whole page. The summary is in `language`; the text below it is English."""
    first, _, rest = rule.page.strip().partition("\n\n")
    summary = _summary(rule, language)
    head = (
        [f"# {rule.code} {rule.name}", summary]
        if language == "zh"
        else [f"# {rule.code} {rule.name}", first, summary]
    )
    return "\n\n".join([*head, rest.strip()]) + "\n"


def pages() -> dict[str, str]:
    """File name and content of every page of `docs/rules/`, the index among them."""
    found = {f"{rule.code}.md": _documented(rule) for rule in RULES}
    found["README.md"] = index_text()
    return found


def index_text() -> str:
    """The list of all rules."""
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
    """A page with the Chinese summary at its end."""
    return f"{page_text(rule)}\n## 中文\n\n{_summary(rule, 'zh')}\n"


def _summary(rule: Rule, language: Language) -> str:
    if language == "zh":
        return say("page-summary", "zh", title=rule.title.zh, meaning=rule.meaning.zh, cure=rule.cure.zh)
    return say("page-summary", "en", title=rule.title.en, meaning=rule.meaning.en, cure=rule.cure.en)


def _row(rule: Rule) -> str:
    return f"| [{rule.code}]({rule.code}.md) | {rule.name} | {rule.title.en}; {rule.title.zh} |"
