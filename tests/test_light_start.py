"""What must start without torch does, and the check that proves it can fail."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

HEAVY = ("torch", "transformers", "accelerate", "numpy", "jinja2", "pygls", "lsprotocol")
SOURCES = str(Path(__file__).parents[1] / "src")
MAIN = (
    "import sys; sys.argv = {argv}\ntry:\n    from samedevice.cli import main; main()\nexcept SystemExit:\n  "
    "  pass\n"
)


def heavy_after(code, heavy=HEAVY):
    """The heavy packages that `code` imported, in a fresh process."""
    report = f"\nimport sys; print('heavy:', *[name for name in {heavy!r} if name in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", code + report],
        env={**os.environ, "PYTHONPATH": SOURCES, "PYTHONHASHSEED": "0"},
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    return done.stdout.rpartition("heavy:")[2].split()


@pytest.mark.parametrize(
    "code",
    [
        "import samedevice",
        "import samedevice._api",
        "import samedevice.planner",
        "import samedevice.diagnosis, samedevice.report, samedevice.machines, samedevice.device_rules",
        "import samedevice.pytest_plugin",
        MAIN.format(argv=["samedevice", "--help"]),
        MAIN.format(argv=["samedevice", "--version"]),
        MAIN.format(
            argv=["samedevice", "preflight", "examples/preflight/refused/transformers_31557/launch.sh"]
        ),
        MAIN.format(argv=["samedevice", "run", "--help"]),
        MAIN.format(argv=["samedevice", "run", "missing.py"]),
        MAIN.format(argv=["samedevice", "explain", "SD111"]),
        MAIN.format(argv=["samedevice", "explain", __file__]),
        MAIN.format(argv=["samedevice", "lint", __file__]),
        MAIN.format(argv=["samedevice", "lint", "--lsp", "--help"]),
        MAIN.format(argv=["samedevice", "run", "--machine", "2xNOTHING", __file__]),
    ],
)
def test_starts_without_torch(code):
    assert heavy_after(code) == []


def test_a_run_without_findings_needs_no_rules(tmp_path):
    script = tmp_path / "script.py"
    script.write_text("import torch\ntorch.ones(2, device='cuda:1') + 1\n")
    run = MAIN.format(argv=["samedevice", "run", "--machine", "2x24GB", str(script)])
    assert heavy_after(run, ["torch", "samedevice.diagnosis.rules"]) == ["torch"]


def test_the_check_can_fail():
    assert "torch" in heavy_after("import samedevice.runtime")
