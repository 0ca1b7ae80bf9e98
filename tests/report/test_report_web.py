"""Pages of runs: text of the script stays text, nothing is loaded, both languages are whole."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser

import pytest

from samedevice.diagnosis import judge
from samedevice.events import Decision, DeviceMemory, Event, EventKind, Operand, Place
from samedevice.messages import SOURCE, Bytes, Phrase, languages
from samedevice.report import render
from samedevice.report.trace import trace_document
from samedevice.report.web import run_page
from samedevice.timeline import Layer, Move, Sample, Timeline, Transfer, Work
from samedevice.timeline import Phase as Span

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


def over_time(text=NASTY):
    samples = (
        Sample(0, (0,) * 6, 0),
        Sample(5, (GIB, 0, 0, GIB, 0, 1), 3 * GIB),
        Sample(9, (GIB, 0, 0, 0, 0, 0), 3 * GIB),
    )
    place = Place(f"/project/{text}.py", 4, text, f"x.to(d)  # {text}")
    return Timeline(
        operators=10,
        memory={"cuda:0": samples, "cuda:1": ()},
        phases=(Span("forward", 1, 6, text),),
        transfers=(Transfer("cpu", "cuda:0", GIB, 3, place),),
        layers={text: (Layer(text, text, "cuda:0", GIB),)},
        work=(Work(1, text, "cuda:0"),),
        moves=(Move(1, "cpu", "cuda:0", GIB),),
    )  # fmt: skip


@pytest.mark.parametrize("language", languages())
def test_a_run_over_time_is_drawn_with_numbers_alone(language):
    plain = Reader(page([], language, timeline=over_time("plain"), text="plain"))
    nasty = Reader(page([], language, timeline=over_time()))
    assert [tag for tag, _ in nasty.elements] == [tag for tag, _ in plain.elements]
    text = "".join(nasty.texts)
    assert text.count(NASTY) >= 3
    for key in ("page.memory-over-time", "page.kind-weights", "page.transfers", "page.phase-forward"):
        assert render(Phrase(key), language) in text
    drawn = [attributes["d"] for tag, attributes in nasty.elements if tag == "path"]
    assert len(drawn) == 4  # weights, activations, the rest, and what is reserved
    assert all(re.fullmatch(r"[MLZ0-9. ]+", path) for path in drawn)
    assert not [tag for tag, _ in nasty.elements if tag == "script"]


def test_a_trace_is_one_that_viewers_read():
    document = json.loads(json.dumps(trace_document(over_time(), program="a.py", version="1")))
    events = document["traceEvents"]
    assert {event["ph"] for event in events} == {"M", "X", "C"}
    assert all({"pid", "name"} <= event.keys() for event in events)
    assert all(isinstance(event["ts"], int) for event in events if event["ph"] != "M")
    [device] = [event for event in events if event.get("args") == {"name": "cuda:0"}]
    memory = [event["args"] for event in events if event["ph"] == "C" and event["name"] == "memory"]
    assert memory[1]["weights"] == GIB
    [copy] = [event for event in events if event["args"].get("bytes")]
    assert (copy["pid"], copy["name"]) == (device["pid"], "cpu to cuda:0")
