"""Releases side by side: what is new, what is gone, and since when."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest

from samedevice.cli import _sweep
from samedevice.errors import UsageError
from samedevice.report.sweep import changes_document
from samedevice.report.web import sweep_page
from samedevice.sweep import (
    Changes,
    Compared,
    Root,
    Swept,
    Target,
    changes_between,
    first_with,
    has_root,
    python_with,
)
from samedevice.sweep._releases import _unmet


def root(key):
    document = {"operands": [], "at": None}
    statements = (f"a.py:{ord(key[0])}",)
    return Root(key, statements, (f"Class{key}",), ("loss",), ("2x24GB",), False, (), True, (), document)


def swept(*keys):
    return Swept("transformers", {"transformers": "5.23.0"}, (), tuple(map(root, keys)), 1.0, 0)


def test_new_gone_and_still_there():
    changes = changes_between(swept("a", "b"), swept("b", "c"))
    assert [[root.key for root in each] for each in (changes.new, changes.fixed, changes.still)] == [
        ["c"],
        ["a"],
        ["b"],
    ]


def test_the_release_is_in_the_page_and_in_the_document():
    last = swept("b", "c<script>")
    changes = changes_between(swept("a", "b"), last)
    compared = Compared("5.0.0", "5.23.0", changes, {"c<script>": "5.10.0", "a": "5.4.0"})
    page = sweep_page(last, "en", version="1", compared=compared)
    assert '<a href="#root-2">c&lt;script&gt;</a> since 5.10.0' in page
    assert "<b>a</b> since 5.4.0" in page
    assert "since 5" not in sweep_page(last, "en", version="1")
    assert changes_document(compared) == {
        "versions": ["5.0.0", "5.23.0"],
        "since": {"c<script>": "5.10.0", "a": "5.4.0"},
        "new": ["c<script>"],
        "fixed": ["a"],
        "still": ["b"],
        "unknown": [],
    }


def ran(name, *runs):
    told = (
        {"kind": "run", "machine": "2x24GB", "action": action, "status": status, "statements": []}
        for action, status in runs
    )
    return Target(f"models.a:{name}", "", "ended", 1.0, 1, tuple(told))


@pytest.mark.parametrize(
    ("targets", "answer"),
    [
        ((), False),
        ((ran("Classa"),), None),
        ((ran("Classa", ("loss", "failed"), ("greedy", "ran")),), None),
        ((ran("Classa", ("loss", "failed"), ("loss", "ran")),), False),
        ((ran("Other"),), False),
    ],
)
def test_a_release_in_which_no_class_runs_says_nothing(targets, answer):
    before, after = swept("a"), replace(swept("b"), targets=targets)
    assert has_root(after, before.roots[0]) is answer
    assert has_root(after, after.roots[0]) is True
    changes = changes_between(before, after)
    assert [root.key for root in changes.fixed] == ([] if answer is None else ["a"])
    assert [root.key for root in changes.unknown] == (["a"] if answer is None else [])
    assert [root.key for root in changes_between(after, before).new] == ([] if answer is None else ["a"])
    compared = Compared("5.0.0", "5.23.0", changes)
    assert ("do not run in the other" in sweep_page(after, "en", version="1", compared=compared)) is (
        answer is None
    )


@pytest.mark.parametrize("place", range(6))
def test_the_first_release_is_found_with_few_questions(place):
    versions, asked = [str(number) for number in range(6)], []

    def has(version):
        asked.append(version)
        return int(version) >= place

    assert first_with(versions, has) == str(place)
    assert len(asked) <= 4


@pytest.mark.parametrize("place", range(1, 6))
@pytest.mark.parametrize("silent", range(5))
def test_releases_that_say_nothing_are_passed_over(place, silent):
    versions = [str(number) for number in range(6)]
    answer = first_with(versions, lambda v: None if int(v) == silent else int(v) >= place)
    assert answer == str(place + (place == silent))


def test_no_release_has_it():
    assert first_with(["1", "2"], lambda _: False) is None
    assert first_with([], lambda _: True) is None


def test_all_classes_of_a_root_cause_are_asked_in_each_release(monkeypatch):
    repaired = {"A": 2, "B": 4}
    both = replace(root("a"), targets=("A", "B"))
    versions = [str(number) for number in range(6)]
    monkeypatch.setattr(_sweep, "releases_between", lambda *_: versions)
    monkeypatch.setattr(_sweep, "_with_release", lambda _, version: version)

    def sweep_of(_options, version, _store, _language, models):
        return swept(*("a" for name in models if int(version) < repaired[name]))

    monkeypatch.setattr(_sweep, "_swept", sweep_of)
    options = SimpleNamespace(versions=("0", "5"))
    order = SimpleNamespace(package="transformers")
    changes = Changes((), (both,), ())
    assert _sweep._bisected(options, order, None, changes, "en") == {"a": "4"}


@pytest.mark.parametrize("given", ["latest", "../x", "5.23.0; rm", ""])
def test_what_is_no_version_is_refused(given, tmp_path):
    with pytest.raises(UsageError):
        python_with("transformers", given, tmp_path)
    assert not list(tmp_path.iterdir())


def distribution(folder, name, version, *requires):
    made = folder / f"{name}-{version}.dist-info"
    made.mkdir(parents=True)
    wanted = "".join(f"Requires-Dist: {each}\n" for each in requires)
    (made / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{wanted}")


def test_what_another_release_needs_and_is_not_there_is_installed_too(tmp_path):
    own, shared = tmp_path / "own", tmp_path / "shared"
    distribution(
        own,
        "library",
        "5.1.0",
        "hub<2,>=1.5",
        "Num_Py>=2",
        "torch>=99",
        'speech; extra == "audio"',
        'old; python_version < "3"',
    )
    for name, version in (("hub", "2.4.0"), ("num-py", "2.4.6"), ("other", "1.0")):
        distribution(shared, name.replace("-", "_"), version, "nowhere>=1")
    assert _unmet(str(own), str(shared)) == ["hub<2,>=1.5"]
    distribution(own, "hub", "1.9.0", "web>=3")
    assert _unmet(str(own), str(shared)) == ["web>=3"]
