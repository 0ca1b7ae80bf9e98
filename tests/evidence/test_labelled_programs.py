"""The labelled programs have readable labels; some are asked here, all by `python -m evidence programs`."""

import pytest

from evidence.bugs import programs
from samedevice.diagnosis import rule_named

ALL = sorted(programs.PROGRAMS.glob("*/*.py"))
SAMPLE = ("seen/prune_later.py", "seen/root_parameter.py")


@pytest.mark.parametrize("program", ALL, ids=lambda path: path.stem)
def test_a_label_names_causes_that_are_there(program):
    causes, guilty = programs.labels(program)
    assert guilty
    for cause in causes:
        assert rule_named(cause).name == cause


def test_no_program_is_in_both_parts():
    assert len({program.name for program in ALL}) == len(ALL)


@pytest.mark.parametrize("name", SAMPLE)
def test_the_cause_is_named(name):
    told = programs.outcome(programs.PROGRAMS / name)
    assert told.right
    assert told.guilty_right is not False


def test_a_wrong_label_is_seen(tmp_path):
    source = (programs.PROGRAMS / "seen" / "ten_lines.py").read_text("utf-8")
    wrong = tmp_path / "wrong.py"
    wrong.write_text(source.replace("input-not-on-embedding-device", "out-of-memory"), "utf-8")
    assert not programs.outcome(wrong).right
