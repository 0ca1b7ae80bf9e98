"""Each situation's example shows its bug at the expected statement, and its repaired twin shows none.

Time: about ten minutes; less with `--tiny`.
Needs: PyPI the first time, for old releases of transformers; transformers, accelerate.

    python -m evidence situations                  # everything, on tiny and on full-size models
    python -m evidence situations S1 S5            # some situations
    python -m evidence situations --tiny           # tiny models only
    python -m evidence situations --build-only     # only install the package versions and make the models

`situations.json` holds the environments (exact pins, laid over the installed packages) and the runs: which
script of `examples/`, which model, which statement must be found first, with which operands; a run that
expects nothing must be clean. Exit status 0: all as expected; 1: not so; 2: wrong usage or an environment
that cannot be built.
"""

import importlib.util
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from evidence.commands import command_parser
from evidence.environments import example_models, overlays
from evidence.places import ROOT, SOURCES

MACHINE = "8xA100-80G"
EXAMPLES = ROOT / "examples"
TABLE: Mapping[str, Any] = json.loads(Path(__file__).with_name("situations.json").read_text("utf-8"))
OFFLINE = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1"}
SECONDS_AT_MOST = 600

Run = Mapping[str, Any]
"""A row of the table: script, model, environment and what is expected."""


def pins_of(name: str) -> dict[str, str]:
    """The pins of an environment; those of the installed one only fill gaps."""
    pins: dict[str, str] = TABLE["environments"][name]
    if name == "installed":
        return {
            package: version for package, version in pins.items() if importlib.util.find_spec(package) is None
        }
    return pins


def environment_of(name: str) -> dict[str, str]:
    """The variables of a run in the named environment; builds it when it is not there yet."""
    variables = {**overlays.environment(pins_of(name)), **OFFLINE}
    variables["PYTHONPATH"] = os.pathsep.join(
        filter(None, [variables.get("PYTHONPATH"), str(SOURCES)])
    )  # this checkout
    return variables


def is_cached(name: str) -> bool:
    """Whether the environment can be used without a download."""
    return not overlays.missing(pins_of(name))


def is_tiny(run: Run) -> bool:
    """Whether the run takes a moment: on a tiny model, or on none."""
    return str(run.get("model", "tiny")).startswith("tiny")


def execute(run: Run, models: Path) -> tuple[Any, int | None, str]:
    """Run one script and return its document, exit status and output."""
    command = [sys.executable, "-m", "samedevice", "run", "--machine", MACHINE, "--json"]
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        command += [str(report), str(EXAMPLES / run["script"])]
        if "model" in run:
            command += ["--model", str(example_models.make(run["model"], models))]
        command += run.get("arguments", [])
        try:
            done = subprocess.run(
                command,
                env=environment_of(run["environment"]),
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                check=False,
                timeout=SECONDS_AT_MOST,
            )
        except subprocess.TimeoutExpired:
            return None, None, f"did not end in {SECONDS_AT_MOST} seconds"
        written = report.read_text("utf-8") if report.exists() else ""
    document = json.loads(written) if written else None
    return document, done.returncode, done.stdout


def matches(finding: Mapping[str, Any], expected: Mapping[str, Any]) -> bool:
    """Whether the finding is at the expected statement, with the expected operands on their devices."""
    at = finding["at"]
    devices = {operand["name"]: operand["device"] for operand in finding["operands"]}
    return (
        at is not None
        and at["file"].replace(os.sep, "/").endswith(expected["file"])
        and at["function"] == expected["function"]
        and finding["op"].startswith(expected["op"] + ".")
        and all(devices.get(name) == device for name, device in expected["devices"].items())
    )


def judge(run: Run, document: Any, status: int | None, output: str) -> list[str]:
    """What is wrong with a run's outcome; empty when it is as expected."""
    if document is None:
        return [f"no report, exit status {status}: {output.strip()[-300:]}"]
    wrong = []
    if document["status"] != "completed":
        lines = [line for line in output.splitlines() if line and not line.startswith((" ", "samedevice:"))]
        wrong.append(f"{document['status']}: {lines[-1] if lines else ''}")
    if run.get("prints") and run["prints"] not in output:
        wrong.append(f"does not print {run['prints']!r}")
    findings = document["findings"]
    if run["expect"]:
        if not findings:
            wrong.append("nothing found")
        elif not matches(findings[0], run["expect"][0]):
            wrong.append("another statement was found first")
        wrong += [
            f"not found: {expected['op']} in {expected['function']} of {expected['file']}"
            for expected in run["expect"][1:]
            if not any(matches(finding, expected) for finding in findings)
        ]
    elif findings:
        wrong.append(f"{len(findings)} found in a clean script")
    return wrong


def statement(finding: Mapping[str, Any]) -> str:
    """One finding in one line: where, which operator, operands."""
    at = finding["at"]
    shown = finding["operands"][:3]
    operands = ", ".join(
        f"{operand['parameter'] or operand['name']} on {operand['device']}" for operand in shown
    )
    more = ", ..." if len(finding["operands"]) > len(shown) else ""
    place = f"{Path(at['file']).name}:{at['line']} in {at['function']}" if at else "nowhere"
    return f"{place}: {finding['op']} ({operands}{more})"


def report_line(run: Run, findings: Sequence[Mapping[str, Any]], wrong: Sequence[str]) -> str:
    """The printed lines of one run."""
    found = statement(findings[0]) if findings else "clean"
    more = f" and {len(findings) - 1} more" if len(findings) > 1 else ""
    script, model, environment = run["script"], run.get("model", "-"), run["environment"]
    head = f"{run['situation']}  {'ok ' if not wrong else 'BAD'}  {script:26} {model:23} {environment:10}"
    return "\n".join([f"{head} {found}{more}", *(f"          {problem}" for problem in wrong)])


def main(arguments: Sequence[str] | None = None) -> int:
    """Run them and print a line for each."""
    parser = command_parser(__name__, __doc__)
    known = sorted({run["situation"] for run in TABLE["runs"]})
    parser.add_argument(
        "situations",
        nargs="*",
        metavar="SITUATION",
        help=f"one of {', '.join(known)}; all when none is given",
    )
    parser.add_argument("--tiny", action="store_true", help="tiny models only")
    parser.add_argument(
        "--models", type=Path, default=example_models.DEFAULT_FOLDER, help="where the models are made"
    )
    parser.add_argument(
        "--build-only", action="store_true", help="only build the environments and make the models"
    )
    options = parser.parse_args(arguments)
    if unknown := sorted(set(options.situations) - set(known)):
        parser.error(f"unknown situation {', '.join(unknown)}")
    wanted = set(options.situations or known)
    runs = [run for run in TABLE["runs"] if run["situation"] in wanted and (is_tiny(run) or not options.tiny)]

    try:
        overlays.ensure_all([pins_of(name) for name in dict.fromkeys(run["environment"] for run in runs)])
    except overlays.OverlayError as error:
        print(error, file=sys.stderr)
        return 2
    for name in dict.fromkeys(run["model"] for run in runs if "model" in run):
        example_models.make(name, options.models)
    if options.build_only:
        return 0

    bad = 0
    for run in runs:
        document, status, output = execute(run, options.models)
        wrong = judge(run, document, status, output)
        bad += bool(wrong)
        print(report_line(run, document["findings"] if document else [], wrong), flush=True)
    print(f"{len(runs) - bad} of {len(runs)} runs as expected on {MACHINE}")
    return 1 if bad else 0
