"""Releases side by side: what is new, what is gone, and since when."""

from __future__ import annotations

import pytest

from samedevice.errors import UsageError
from samedevice.report.sweep import changes_document
from samedevice.report.web import sweep_page
from samedevice.sweep import Compared, Root, Swept, changes_between, first_with, python_with
from samedevice.sweep._releases import _unmet


def root(key):
    document = {"operands": [], "at": None}
    statements = (f"a.py:{ord(key[0])}",)
    return Root(key, statements, (f"Class{key}",), ("loss",), ("2x24GB",), False, (), True, document)


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
    }


@pytest.mark.parametrize("place", range(6))
def test_the_first_release_is_found_with_few_questions(place):
    versions, asked = [str(number) for number in range(6)], []

    def has(version):
        asked.append(version)
        return int(version) >= place

    assert first_with(versions, has) == str(place)
    assert len(asked) <= 4


def test_no_release_has_it():
    assert first_with(["1", "2"], lambda _: False) is None
    assert first_with([], lambda _: True) is None


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
