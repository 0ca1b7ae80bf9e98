"""Run the example of every situation on a virtual machine, on tiny and on full-size models, and compare with
what is expected.

    python examples/situations.py                  # everything: about ten minutes on two cores
    python examples/situations.py S1 S5            # some situations
    python examples/situations.py --tiny           # tiny models only
    python examples/situations.py --build-only     # only install the package versions and make the models

`situations.json` holds the environments (exact pins, laid over the installed packages) and the runs: which
script, which model, which statement must be found first, with which operands; a run that expects nothing must
be clean. Exit status 0: all as expected; 1: not so; 2: wrong usage or an environment that cannot be built.
"""

import argparse
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

EXAMPLES = Path(__file__).resolve().parent
ROOT = EXAMPLES.parent
if str(ROOT) not in sys.path:  # run as a script: only this folder is on the path
    sys.path.insert(0, str(ROOT))

from examples import make_models  # noqa: E402 -- needs the line above
from tools import overlays  # noqa: E402 -- needs the line above

MACHINE = "8xA100-80G"
TABLE = json.loads((EXAMPLES / "situations.json").read_text("utf-8"))
OFFLINE = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1"}
SECONDS_AT_MOST = 600


def pins_of(name):
    """The pins of an environment; those of the installed one only fill gaps."""
    pins = TABLE["environments"][name]
    if name == "installed":
        return {
            package: version for package, version in pins.items() if importlib.util.find_spec(package) is None
        }
    return pins


def environment_of(name):
    """The variables of a run in the named environment; builds it when it is not there yet."""
    variables = {**overlays.environment(pins_of(name)), **OFFLINE}
    variables["PYTHONPATH"] = os.pathsep.join(
        filter(None, [variables.get("PYTHONPATH"), str(ROOT / "src")])
    )  # this checkout
    return variables


def is_cached(name):
    """Whether the environment can be used without a download."""
    return not overlays.missing(pins_of(name))


def is_tiny(run):
    return run.get("model", "tiny").startswith("tiny")


def execute(run, models):
    """Run one script and return its document, exit status and output."""
    command = [sys.executable, "-m", "samedevice", "run", "--machine", MACHINE, "--json"]
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        command += [str(report), str(EXAMPLES / run["script"])]
        if "model" in run:
            command += ["--model", str(make_models.make(run["model"], models))]
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


def matches(finding, expected):
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


def judge(run, document, status, output):
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


def statement(finding):
    """One finding in one line: where, which operator, operands."""
    at = finding["at"]
    shown = finding["operands"][:3]
    operands = ", ".join(
        f"{operand['parameter'] or operand['name']} on {operand['device']}" for operand in shown
    )
    more = ", ..." if len(finding["operands"]) > len(shown) else ""
    place = f"{Path(at['file']).name}:{at['line']} in {at['function']}" if at else "nowhere"
    return f"{place}: {finding['op']} ({operands}{more})"


def report_line(run, findings, wrong):
    """The printed lines of one run."""
    found = statement(findings[0]) if findings else "clean"
    more = f" and {len(findings) - 1} more" if len(findings) > 1 else ""
    script, model, environment = run["script"], run.get("model", "-"), run["environment"]
    head = f"{run['situation']}  {'ok ' if not wrong else 'BAD'}  {script:26} {model:23} {environment:10}"
    return "\n".join([f"{head} {found}{more}", *(f"          {problem}" for problem in wrong)])


def main():
    parser = argparse.ArgumentParser(
        description="Run the examples of the situations and compare with what is expected."
    )
    known = sorted({run["situation"] for run in TABLE["runs"]})
    parser.add_argument(
        "situations",
        nargs="*",
        metavar="SITUATION",
        help=f"one of {', '.join(known)}; all when none is given",
    )
    parser.add_argument("--tiny", action="store_true", help="tiny models only")
    parser.add_argument(
        "--models", type=Path, default=make_models.DEFAULT_FOLDER, help="where the models are made"
    )
    parser.add_argument(
        "--build-only", action="store_true", help="only build the environments and make the models"
    )
    arguments = parser.parse_args()
    if unknown := sorted(set(arguments.situations) - set(known)):
        parser.error(f"unknown situation {', '.join(unknown)}")
    wanted = set(arguments.situations or known)
    runs = [
        run for run in TABLE["runs"] if run["situation"] in wanted and (is_tiny(run) or not arguments.tiny)
    ]

    try:
        overlays.ensure_all([pins_of(name) for name in dict.fromkeys(run["environment"] for run in runs)])
    except overlays.OverlayError as error:
        print(error, file=sys.stderr)
        return 2
    for name in dict.fromkeys(run["model"] for run in runs if "model" in run):
        make_models.make(name, arguments.models)
    if arguments.build_only:
        return 0

    bad = 0
    for run in runs:
        document, status, output = execute(run, arguments.models)
        wrong = judge(run, document, status, output)
        bad += bool(wrong)
        print(report_line(run, document["findings"] if document else [], wrong), flush=True)
    print(f"{len(runs) - bad} of {len(runs)} runs as expected on {MACHINE}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
