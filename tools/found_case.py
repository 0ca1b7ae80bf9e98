"""Begin a case of docs/found from a script that shows a finding.

python -m tools.found_case NAME SCRIPT PACKAGE [SWEEP.json] [STATEMENT]

Runs the script on two virtual GPUs and writes `script.py` and `seen.json`; where the case has no patch, the
fixes that samedevice knows are tried, and those that ran clean are its `patch.diff`. What is left for a
person: `reading.toml`, and the patch where none ran clean. The page is of the first finding, or of the one at
STATEMENT (`modeling_bert.py:1126`), where the script shows it.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path
from typing import Any

from evidence.found.case import CASES

_KEPT = (
    "code",
    "cause",
    "confidence",
    "title",
    "message",
    "op",
    "at",
    "module",
    "operands",
    "guilty",
)


def main(name: str, script: str, package: str, sweep: str = "", statement: str = "") -> int:
    """Make the folder; 1 where the script shows nothing."""
    folder = CASES / name
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as temporary:
        shutil.copyfile(script, Path(temporary) / "script.py")
        fix = [] if (folder / "patch.diff").is_file() else ["--fix"]
        words = ["-m", "samedevice", "run", "--machine", "2x24GB", *fix, "--json", "o.json", "script.py"]
        subprocess.run([sys.executable, *words], cwd=temporary, capture_output=True, check=False)
        document = json.loads((Path(temporary) / "o.json").read_text("utf-8"))
        patches = sorted(Path(temporary).rglob("*.patch")) + sorted(Path(temporary).rglob("*.diff"))
        patch = "".join(each.read_text("utf-8") for each in patches)
    if not document["findings"]:
        print(f"{name}: the script shows nothing; it ended as {document['status']}")
        return 1
    shutil.copyfile(script, folder / "script.py")
    finding = next(
        (each for each in document["findings"] if statement and _place(each).endswith(statement)),
        document["findings"][0],
    )
    seen = {
        "package": package,
        "version": version(package),
        "statement": _place(finding),
        "classes": _classes(sweep, _below(finding["at"]["file"]), finding["at"]["line"]),
        "same_lines": [],
        "finding": _shortened({key: finding[key] for key in _KEPT}),
    }
    (folder / "seen.json").write_text(json.dumps(seen, indent=1, ensure_ascii=False) + "\n", "utf-8")
    if patch:
        (folder / "patch.diff").write_text(patch, "utf-8")
    print(f"{name}: {seen['statement']}, {len(document['findings'])} findings, fixing {document['fixing']}")
    return 0


def _place(finding: dict[str, Any]) -> str:
    return f"{_below(finding['at']['file'])}:{finding['at']['line']}"


def _below(file: str) -> str:
    """A library's file below the folder of libraries; of the script its name alone."""
    return "script.py" if file.endswith("/script.py") else file.rpartition("site-packages/")[2]


def _shortened(value: Any) -> Any:
    """Paths of installed files without the folder of this computer."""
    if isinstance(value, dict):
        return {
            key: _below(each) if key == "file" and each else _shortened(each) for key, each in value.items()
        }
    return [_shortened(each) for each in value] if isinstance(value, list) else value


def _classes(sweep: str, file: str, line: int) -> list[str]:
    """Classes that the sweep lists under the same root cause."""
    if not sweep:
        return []
    roots = json.loads(Path(sweep).read_text("utf-8"))["roots"]
    return next((root["targets"] for root in roots if f"{file}:{line}" in root["statements"]), [])


if __name__ == "__main__":
    raise SystemExit(main(*sys.argv[1:]))
