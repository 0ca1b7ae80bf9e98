"""What a text means does not change with how it is typeset, so neither does its cause."""

from __future__ import annotations

import json
import re
import textwrap
from pathlib import Path

import pytest

from samedevice.diagnosis import explain_text

WRITTEN = [
    entry["text"] for entry in json.loads((Path(__file__).parent / "texts_of_users.json").read_text("utf-8"))
]
FORM = """### System Info

- Platform: Linux-5.15.0-91-generic-x86_64-with-glibc2.35
- PyTorch version (GPU?): 2.2.1+cu121 (True)
- Using GPU in script?: yes
- Using distributed or parallel set-up in script?: no
- [ ] The official example scripts
- [X] My own modified scripts

"""
FULL = {"can": "cannot", "won": "will not"}
TYPESET = {
    "curly quotes": lambda text: re.sub(r"(\w)'(\w)", "\\1\u2019\\2", text),
    "in full": lambda text: re.sub(
        r"\b(can|won)'t\b|\b(\w+)n't\b", lambda found: FULL.get(found[1], f"{found[2]} not"), text
    ),
    "shortened": lambda text: re.sub(r"\b(do|does|did|is|are|was|were) not\b", r"\1n't", text),
    "without the apostrophe": lambda text: re.sub(r"\b(do|does|did|is|are|was|were)n't\b", r"\1nt", text),
    "indented": lambda text: textwrap.indent(text, "    "),
    "quoted": lambda text: "\n".join("> " + line for line in text.split("\n")),
    "of another system": lambda text: text.replace("\n", "\r\n"),
    "of one rank": lambda text: "\n".join(
        "[rank0]: " + line if line.strip() else line for line in text.split("\n")
    ),
    "in a form": lambda text: FORM + text + "\n\n### Expected behavior\n\nIt should run without errors.",
}


@pytest.mark.parametrize("how", TYPESET)
def test_a_cause_does_not_hang_on_how_a_text_is_typeset(how):
    changed = [(text, other) for text in WRITTEN[::5] if (other := TYPESET[how](text)) != text]
    assert changed
    differ = [
        (before, after, text)
        for text, other in changed
        if (before := explain_text(text)[0].cause) != (after := explain_text(other)[0].cause)
    ]
    assert not differ
