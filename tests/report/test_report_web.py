"""Pages of runs: text of the script stays text, nothing is loaded, both languages are whole."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import pytest

from samedevice.diagnosis import judge
from samedevice.events import Decision, DeviceMemory, Event, EventKind, Operand, Place
from samedevice.messages import SOURCE, Bytes, Phrase, languages
from samedevice.report import render
from samedevice.report.web import run_page

NASTY = """</pre><script>alert('x')</script><img src="https://example.org/x" onerror='a()'>&amp;"""
GIB = 1 << 30
VOID = {"meta", "link", "br", "img", "input", "hr"}


class Reader(HTMLParser):
    """Elements, attributes and text of a page; what is not closed in order is an error."""

    def __init__(self, page):
        super().__init__()
        self.open, self.elements, self.texts = [], [], []
        self.feed(page)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, text):
        self.texts.append(text)


def findings(count=1, text=NASTY):
    place = Place(f"/project/{text}.py", 4, text, f"y = a + b  # {text}")
    operands = (
        Operand("self", "cuda:0", (2,), "float32", made=place, parameter=text),
        Operand(
            text, "cpu", (2,), "float32", made=place, moved=place,
            lineage=(Decision("moved", "cpu", place, said=text), Decision("created", "cuda:0", place)),
        ),
    )  # fmt: skip
    event = Event(EventKind.MISMATCH, "aten.add.Tensor", text, place, place, text, operands, (place,))
    return [judge(event)] * count


def page(found, language=SOURCE, memory=None, text=NASTY, **more):
    machine = {"spec": f"2x{text}", "name": text, "gpus": [{"index": 0, "name": f"GPU {text}"}]}
    values = {
        "program": text, "machine": machine, "ranks": {}, "notices": [text], "version": "1",
        "status": "completed", "language": language,
        "memory": {"cuda:0": DeviceMemory(0, 0, GIB, 2 * GIB, 24 * GIB)} if memory is None else memory,
    }  # fmt: skip
    return run_page(found, **{**values, **more})


@pytest.mark.parametrize("language", languages())
def test_text_of_the_script_stays_text(language):
    plain = Reader(page(findings(text="plain"), language, text="plain"))
    nasty = Reader(page(findings(), language))
    assert [tag for tag, _ in nasty.elements] == [tag for tag, _ in plain.elements]
    assert NASTY in "".join(nasty.texts)


@pytest.mark.parametrize("language", languages())
def test_nothing_is_loaded_and_nothing_runs(language):
    for tag, attributes in Reader(page(findings(), language)).elements:
        assert tag not in ("script", "img", "iframe", "object", "embed", "form", "base")
        assert not [name for name in attributes if name.startswith("on") or name == "src"]
        assert attributes.get("href", "data:,") == "data:,"
    assert not re.search(r"url\(|@import|https?:", page(findings(text="plain"), language, text="plain"))


def test_both_languages_say_what_was_found():
    shown = {language: "".join(Reader(page(findings(), language)).texts) for language in languages()}
    for language, text in shown.items():
        assert render(Phrase("page.found-one"), language) in text
        assert render(Phrase("memory.allocated"), language) in text
        assert str(Bytes(GIB)) in text
    assert shown["en"] != shown["zh"]


def test_the_end_of_the_memory_is_marked_where_more_was_needed():
    def marks(peak):
        memory = {"cuda:0": DeviceMemory(0, 0, peak, peak, 24 * GIB)}
        return [attributes for tag, attributes in Reader(page([], memory=memory)).elements if tag == "b"]

    assert marks(24 * GIB) == []
    assert marks(48 * GIB) == [{"style": "left:50.0%"}]


def test_a_thousand_findings_are_small():
    made = page(findings(1000, text="plain"), text="plain")
    assert len(made.encode()) < 6 << 20
    assert made.count('class="card"') == 1000


def test_processes_have_lanes_of_their_own():
    ranks = {"rank 0 cuda:0": DeviceMemory(0, 0, GIB, GIB, 24 * GIB)}
    assert "rank 0 cuda:0" in "".join(Reader(page([], ranks=ranks)).texts)
