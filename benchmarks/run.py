"""Run every benchmark, each in a process of its own, one after the other.

python benchmarks/run.py [NAME ...]
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).parent
NAMES = sorted(path.stem for path in FOLDER.glob("*.py") if path.stem != "run")


def main(names: list[str]) -> int:
    """Run the named benchmarks, or all; the number of those that failed."""
    unknown = sorted(set(names) - set(NAMES))
    if unknown:
        print(f"no benchmark {', '.join(unknown)}; there are {', '.join(NAMES)}", file=sys.stderr)
        return 2
    failed = 0
    for name in names or NAMES:
        print(f"\n== {name}", flush=True)
        failed += subprocess.run([sys.executable, str(FOLDER / f"{name}.py")], check=False).returncode != 0
    return failed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
