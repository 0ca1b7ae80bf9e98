"""Every rule by its code and by its name: those of what happened, of causes, of launches, and of lint.

The rules of lint come in when a code or a name is one of theirs.
"""

from __future__ import annotations

from samedevice import diagnosis, lint
from samedevice.messages import SOURCE, Language

_LINT = "SD2"
"""What the codes of lint begin with."""


def every_rule() -> tuple[diagnosis.Rule, ...]:
    """All rules, by their codes."""
    return tuple(sorted((*diagnosis.RULES, *lint.RULES), key=lambda rule: rule.code))


def code_of(code: str) -> diagnosis.Rule:
    """The rule of a code such as `SD101`; raises `KeyError` when there is none."""
    return lint.rule_of(code) if code.startswith(_LINT) else diagnosis.code_of(code)


def rule_named(name: str) -> diagnosis.Rule:
    """The rule of a name or slug; raises `KeyError` when there is none."""
    found = diagnosis.find_rule(name) or lint.find_rule(name)
    if found is None or found.name != name:
        raise KeyError(name)
    return found


def page_code(code: str, cause: str | None) -> str:
    """The code whose page tells most of a finding: its cause's, if that was told; of lint its own."""
    return code if cause is None or code.startswith(_LINT) else rule_named(cause).code


def find_rule(word: str) -> diagnosis.Rule | None:
    """The rule with this code or name, in any case."""
    return diagnosis.find_rule(word) or lint.find_rule(word)


def sentence_of_rule(key: str, language: Language) -> str:
    """What a rule's own file says for a key such as `rules.out-of-memory.cure`.

    In English where it does not have the language.
    """
    _, name, part = key.split(".", maxsplit=2)
    texts = rule_named(name).texts[part]
    return texts.get(language, texts[SOURCE])
