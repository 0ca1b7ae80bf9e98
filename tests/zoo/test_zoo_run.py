"""The zoo's index is sound, its runner counts right, and a sample of the cases runs both ways."""

import dataclasses
import json
import os
import re

import pytest

from evidence.zoo import causes, zoo
from evidence.zoo.judge import Outcome, Verdict

CASES = zoo.cases()
SAMPLE_SIZE = 2


def test_index_and_scripts_agree():
    names = [case.id for case in CASES]
    assert len(set(names)) == len(names)
    assert {path.stem for path in (zoo.ZOO / "cases").glob("*.py")} == set(names)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_entry_is_complete(case):
    assert set(case.expect) == {"file", "lines", "op", "devices"}
    first, last = case.expect["lines"]
    assert 1 <= first <= last
    assert re.fullmatch(r"aten\.[a-z0-9_]+", case.expect["op"])
    assert all(re.fullmatch(r"cpu|cuda:[0-9]+", device) for device in case.expect["devices"])
    assert case.pins["bad"] != case.pins["good"]
    for pins in case.pins.values():
        assert zoo.overlays.parse_pins([f"{name}=={version}" for name, version in pins.items()]) == dict(pins)
    assert case.script.read_text(encoding="utf-8").rstrip().endswith('print("SCENARIO OK")')


def test_halves_are_drawn_and_not_chosen():
    entries = json.loads((zoo.ZOO / "index.json").read_text(encoding="utf-8"))
    drawn = [entry for entry in entries if "half" in entry]
    for entry in drawn:
        assert entry["half"] in {zoo.drawn(entry["id"]), zoo.SEEN}, (
            "an unseen case that was looked at is seen"
        )
    assert {case.part for case in CASES} == set(zoo.PARTS)
    assert sum(case.part == zoo.FIRST for case in CASES) == 47


def test_silent_programs_have_a_script_and_a_good_version_only():
    silent = zoo.silent()
    assert {path.stem for path in (zoo.ZOO / "cases" / "silent").glob("*.py")} == {case.id for case in silent}
    for case in silent:
        assert set(case.pins) == {"good"}
        assert case.script.read_text(encoding="utf-8").endswith('print("SCENARIO OK")\n')


def test_silent_programs_have_no_bad_way(monkeypatch):
    monkeypatch.setattr(zoo, "run_way", lambda case, way, timeout: Outcome(0, [], "SCENARIO OK"))
    row = zoo.run_case(zoo.silent()[0], ("bad", "good"), 1.0)
    assert row.bad is None
    assert row.good == Verdict(True)


def test_each_part_has_its_own_totals(capsys):
    rows = [
        zoo.Row(case, Verdict(right), Verdict(True), 1.0)
        for right, part in zip((True, False, True), zoo.PARTS, strict=True)
        for case in [next(case for case in CASES if case.part == part)]
    ]
    zoo.show(rows, 3)
    lines = capsys.readouterr().out.splitlines()[-4:]
    assert [line.split(", ")[0] for line in lines] == [
        "first: found 1/1",
        "seen: found 0/1",
        "unseen: found 1/1",
        "found 2/3",
    ]


def saved_runs(tmp_path, chosen, diagnosis):
    path = tmp_path / "zoo.json"
    rows = [zoo.Row(case, Verdict(True, diagnosis=diagnosis(case)), None, 1.0) for case in chosen]
    path.write_text(json.dumps(zoo.document(rows, 1.0)))
    return str(path)


def test_causes_are_counted_by_part_and_unseen_ones_not_told(tmp_path, capsys):
    chosen = [next(case for case in CASES if case.part == part) for part in zoo.PARTS]

    def diagnosis(case):
        return {"cause": "a-cause", "confidence": "likely", "guilty": causes.KEY["guilty"][case.id][0]}

    assert causes.main(["--runs", saved_runs(tmp_path, chosen, diagnosis)]) == 1
    out = capsys.readouterr().out
    assert out.count("a-cause (likely)") == 2
    for part in zoo.PARTS:
        assert f"{part}: cause right 0 of 1, guilty operand right 1 of 1" in out
    assert "all: cause right 0 of 3, guilty operand right 3 of 3" in out


def test_sample_is_the_same_every_time():
    chosen = zoo.sample(CASES, SAMPLE_SIZE)
    assert len(chosen) == SAMPLE_SIZE
    assert chosen == zoo.sample(CASES[::-1], SAMPLE_SIZE)[::-1]
    assert set(case.id for case in chosen) < set(case.id for case in zoo.sample(CASES, SAMPLE_SIZE + 1))
    assert zoo.sample(CASES, 1000) == CASES


def row(bad, good):
    return zoo.Row(CASES[0], bad, good, 1.0)


def test_totals_count_ways_and_alarms():
    rows = [
        row(Verdict(True, others=("another",)), Verdict(True)),
        row(Verdict(False, "nothing found"), Verdict(False, "false alarm", ("one", "two"))),
        row(None, Verdict(False, "exit status 3")),
    ]
    assert zoo.totals(rows, 12.4) == "found 1/2, good clean 1/3, false alarms 2, seconds 12"
    assert [each.right for each in rows] == [True, False, False]


def test_table_shows_what_is_wrong(capsys):
    zoo.show(
        [row(Verdict(False, "nothing found [x]"), Verdict(False, "false alarm", ("SD101 at [/y]:1",)))], 2
    )
    out = capsys.readouterr().out
    assert "nothing found [x]" in out
    assert "SD101 at [/y]:1" in out
    assert out.rstrip().endswith("found 0/1, good clean 0/1, false alarms 1, seconds 2")


def fake_run(monkeypatch, outcome):
    monkeypatch.setattr(zoo.overlays, "ensure_all", list)
    monkeypatch.setattr(zoo, "run_way", lambda case, way, timeout: outcome[way])


def test_exit_status_and_json(monkeypatch, tmp_path, capsys):
    expect = CASES[0].expect
    hit = {
        "code": "SD101",
        "op": expect["op"],
        "at": {"file": f"/x/{expect['file']}", "line": expect["lines"][0]},
        "operands": [{"device": device} for device in expect["devices"]],
    }
    outcome = {"bad": Outcome(1, [hit], ""), "good": Outcome(0, [], "SCENARIO OK")}
    fake_run(monkeypatch, outcome)
    written = tmp_path / "zoo.json"
    assert zoo.main([CASES[0].id, "--json", str(written)]) == 0
    assert json.loads(written.read_text())["cases"][0]["bad"]["right"] is True
    assert "found 1/1, good clean 1/1, false alarms 0" in capsys.readouterr().out

    outcome["good"] = Outcome(1, [hit], "SCENARIO OK")
    assert zoo.main([CASES[0].id]) == 1
    assert "false alarms 1" in capsys.readouterr().out
    assert zoo.main([CASES[0].id, "--bad-only"]) == 0
    assert "found 1/1, good clean 0/0" in capsys.readouterr().out


STUB = """
import json, sys, time
arguments = sys.argv[1:]
assert arguments[:2] == ["run", "--machine"], arguments
if "slow" in arguments[2]:
    time.sleep(60)
with open(arguments[arguments.index("--json") + 1], "w") as report:
    json.dump({"schema": 1, "findings": []}, report)
print("chatter")
print("SCENARIO OK")
print()
print("to stderr", file=sys.stderr)
sys.exit(0)
"""


@pytest.fixture
def stub_program(monkeypatch, tmp_path):
    """A `python -m samedevice` that only pretends, in a repository of its own."""
    package = tmp_path / "src" / "samedevice"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "__main__.py").write_text(STUB)
    monkeypatch.setattr(zoo, "SOURCES", tmp_path / "src")
    monkeypatch.setattr(zoo.overlays, "ensure", lambda pins: [])


def test_one_way_runs_in_a_process_of_its_own(stub_program):
    outcome = zoo.run_way(CASES[0], "bad", timeout=60)
    assert (outcome.exit_status, outcome.findings) == (0, [])
    assert outcome.last_line == "SCENARIO OK"
    assert outcome.complaint == "to stderr"


def test_a_run_that_hangs_is_stopped(stub_program):
    slow = dataclasses.replace(CASES[0], machine="slow")
    outcome = zoo.run_way(slow, "good", timeout=1)
    assert outcome.exit_status is None
    assert outcome.findings is None
    assert outcome.seconds < 30


def test_unknown_case_is_refused(capsys):
    assert zoo.main(["no-such-case"]) == 2
    assert "no-such-case" in capsys.readouterr().err


def test_missing_overlays_are_told(monkeypatch, capsys):
    def fail(environments):
        raise zoo.overlays.OverlayError("pip could not install peft==0.1")

    monkeypatch.setattr(zoo.overlays, "ensure_all", fail)
    assert zoo.main([CASES[0].id]) == 2
    assert "pip could not install peft==0.1" in capsys.readouterr().err


def sample_or_skip():
    """The sample of this machine; SAMEDEVICE_ZOO_SAMPLE=N asks for N cases and lets them be installed."""
    wanted = os.environ.get("SAMEDEVICE_ZOO_SAMPLE", "")
    if wanted and not (wanted.isdigit() and int(wanted) > 0):
        pytest.fail(f"SAMEDEVICE_ZOO_SAMPLE must be a number of cases, not {wanted!r}")
    chosen = zoo.sample(
        [case for case in CASES if case.part == zoo.FIRST], int(wanted) if wanted else SAMPLE_SIZE
    )
    if not wanted and not zoo.built(chosen):
        pytest.skip(
            "the sample's package versions are not installed; `make zoo` or SAMEDEVICE_ZOO_SAMPLE=2 "
            "installs them"
        )
    return chosen


def test_sample_runs_both_ways():
    chosen = sample_or_skip()
    zoo.overlays.ensure_all(pins for case in chosen for pins in case.pins.values())
    rows = zoo.run_all(chosen, ("bad", "good"), jobs=1, timeout=300)
    wrong = [f"{each.case.id}: bad {each.bad}, good {each.good}" for each in rows if not each.right]
    assert len(rows) == len(chosen)
    assert not wrong, "\n".join(wrong)
