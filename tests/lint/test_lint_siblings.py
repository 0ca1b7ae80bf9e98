"""SD230: what functions of one name send to a device in a package, and one of them does not."""

from __future__ import annotations

import pytest

from samedevice.lint import Linter, Options

BEGIN = "import torch\n\n\n"
SENT = "        return past.index_select(0, beams.to(past.device))\n"
PLAIN = "        return past.index_select(0, beams)\n"


def method(owner, body, name="reorder"):
    return f"class {owner}:\n    def {name}(self, past, beams, device=None):\n{body}\n\n"


def lines(folder, text, **others):
    """The lines of a file that are flagged, beside other files of its package."""
    package = folder / "package"
    package.mkdir(exist_ok=True)
    (package / "__init__.py").touch()
    for name, other in others.items():
        (package / f"{name}.py").write_text(BEGIN + other)
    path = package / "model.py"
    path.write_text(BEGIN + text)
    found = Linter(Options(select=("SD230",))).check(path).findings
    return [each.at.code for each in found]


def test_the_others_may_be_in_other_files(tmp_path):
    others = {"small": method("Small", SENT), "middle": method("Middle", SENT)}
    assert lines(tmp_path, method("Large", PLAIN), **others) == [PLAIN.strip()]


def test_the_reason_names_one_and_counts_them(tmp_path):
    text = BEGIN + method("Small", SENT) + method("Middle", SENT) + method("Large", PLAIN)
    path = tmp_path / "model.py"
    path.write_text(text)
    (finding,) = Linter(Options(select=("SD230",))).check(path).findings
    told = dict(finding.reasons[0].values)
    assert (told["file"], told["count"]) == ("model.py", "2")
    assert text.splitlines()[int(told["line"]) - 1].strip() == SENT.strip()


@pytest.mark.parametrize(
    ("others", "flagged"),
    [
        ([method("Small", SENT)], False),  # one alone may have reasons of its own
        ([method("Small", SENT, "other"), method("Middle", SENT, "other")], False),
        ([method("Small", SENT, "__init__"), method("Middle", SENT, "__init__")], False),
        ([method("Small", SENT.replace("beams.to", "past.to")), method("Middle", SENT)], False),
        ([method("Small", SENT.replace("past.device", "torch.long"))] * 2, False),
        ([method("Small", SENT.replace(".to(past.device)", ".cuda()")), method("Middle", SENT)], True),
    ],
    ids=["one", "other-name", "constructor", "something-else", "dtype", "cuda"],
)
def test_what_counts_as_the_same(others, flagged, tmp_path):
    named = {f"other{number}": text for number, text in enumerate(others)}
    assert bool(lines(tmp_path, method("Large", PLAIN), **named)) is flagged


STATEMENT = "        wanted = beams * 2\n{}        return past.index_select(0, wanted)\n"


@pytest.mark.parametrize(
    ("sends", "own", "flagged"),
    [
        ("        wanted = wanted.to(past.device)\n", "", True),
        ("        wanted = wanted.to(past.device)\n", "        wanted = wanted.to(device)\n", False),
        ("        wanted = wanted.to(torch.long)\n", "", False),
    ],
    ids=["missing", "sent-too", "dtype"],
)
def test_a_statement_that_only_sends(sends, own, flagged, tmp_path):
    others = {name: method("Other", STATEMENT.format(sends)) for name in ("small", "middle")}
    assert bool(lines(tmp_path, method("Large", STATEMENT.format(own)), **others)) is flagged


MADE = "        steps = torch.arange(past.shape[0]{})\n        return past + steps{}\n"


@pytest.mark.parametrize(
    ("later", "flagged"), [("", True), (".to(past.device)", False), (".type_as(past)", False)]
)
def test_what_is_made_on_a_device_elsewhere(later, flagged, tmp_path):
    others = {name: method("Other", MADE.format(", device=past.device", "")) for name in ("small", "middle")}
    assert bool(lines(tmp_path, method("Large", MADE.format("", later)), **others)) is flagged


def test_a_copy_takes_what_is_elsewhere(tmp_path):
    body = "        past.copy_(beams.to(past.device))\n"
    others = {name: method("Other", body) for name in ("small", "middle")}
    assert lines(tmp_path, method("Large", body.replace(".to(past.device)", "")), **others) == []


def test_the_text_of_an_editor_counts_not_the_stored_one(tmp_path):
    others = {"small": method("Small", SENT), "middle": method("Middle", SENT)}
    assert lines(tmp_path, method("Large", SENT), **others) == []
    linter = Linter(Options(select=("SD230",)))
    path = tmp_path / "package" / "model.py"
    assert linter.check_code(path, BEGIN + method("Large", PLAIN)).findings
