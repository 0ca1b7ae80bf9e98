"""Releases side by side: what is new, what is gone, and since when."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from samedevice.errors import UsageError
from samedevice.sweep import changes_between, first_with, python_with


def swept(*keys):
    return SimpleNamespace(roots=[SimpleNamespace(key=key) for key in keys])


def test_new_gone_and_still_there():
    changes = changes_between(swept("a", "b"), swept("b", "c"))
    assert [[root.key for root in each] for each in (changes.new, changes.fixed, changes.still)] == [
        ["c"],
        ["a"],
        ["b"],
    ]


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
