"""A rule's page as Markdown: its heading, a summary, and the rule's own text, all in one language."""

from __future__ import annotations

from collections.abc import Iterable

from samedevice import diagnosis, lint, rulebook
from samedevice.messages import SOURCE, Language, Phrase
from samedevice.report._render import render


def page_text(rule: diagnosis.Rule, language: Language = SOURCE) -> str:
    """The whole page; the text below the summary is English where the rule's file has no other."""
    first, _, rest = rule.page.get(language, rule.page[SOURCE]).strip().partition("\n\n")
    head = [
        f"# {rule.code} {rule.name}",
        *([first] if language in rule.page else []),
        _summary(rule, language),
    ]
    return "\n\n".join([*head, rest.strip()]) + "\n"


def pages(language: Language = SOURCE) -> dict[str, str]:
    """File name and content of every page in a language, the index (`README.md`) among them."""
    found = {f"{rule.code}.md": page_text(rule, language) for rule in rulebook.every_rule()}
    found["README.md"] = _index(language)
    return found


def _index(language: Language) -> str:
    def table(rules: Iterable[diagnosis.Rule]) -> str:
        head = render(Phrase("rule-index.columns"), language)
        return "\n".join([head, "|---|---|---|", *(_row(rule, language) for rule in rules)])

    parts = [
        render(Phrase("rule-index.head"), language),
        render(Phrase("rule-index.what"), language),
        table(diagnosis.CODES),
        render(Phrase("rule-index.why"), language),
        table(diagnosis.CAUSES),
        render(Phrase("rule-index.launches"), language),
        table(diagnosis.REFUSALS),
        render(Phrase("rule-index.lint"), language),
        table(lint.RULES),
    ]
    return "\n\n".join(parts) + "\n"


def _summary(rule: diagnosis.Rule, language: Language) -> str:
    parts = {name: rule.phrase(name) for name in ("title", "meaning", "cure")}
    return render(Phrase("page-summary", **parts), language)


def _row(rule: diagnosis.Rule, language: Language) -> str:
    return f"| [{rule.code}]({rule.code}.md) | {rule.name} | {render(rule.phrase('title'), language)} |"
