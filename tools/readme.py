"""Write the example of both READMEs, and what a run of it prints, into their fenced blocks.

python -m tools.readme
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from samedevice.messages import SOURCE, Language

ROOT = Path(__file__).resolve().parents[1]
READMES: Mapping[Language, Path] = {SOURCE: ROOT / "README.md", "zh": ROOT / "README.zh-CN.md"}
EXAMPLE = "two_gpus.py"

_BLOCK = r"(^```{head}[^\n]*\n).*?(^```$)"


def printed(language: Language) -> str:
    """What `samedevice run` prints of the example."""
    command = ["run", "--machine", "2x24GB", "--lang", language, f"examples/{EXAMPLE}"]
    kept = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "FORCE_COLOR")}
    ours = {"PYTHONPATH": str(ROOT / "src"), "PYTHONIOENCODING": "utf-8"}
    words = [sys.executable, "-m", "samedevice", *command]
    done = subprocess.run(
        words, cwd=ROOT, env={**kept, **ours}, capture_output=True, encoding="utf-8", check=False
    )
    if done.returncode != 1 or done.stdout:
        raise SystemExit(f"{' '.join(command)}: status {done.returncode}\n{done.stderr}")
    return done.stderr


def filled(page: str, language: Language) -> str:
    """The page with the example and its output in their blocks."""
    script = (ROOT / "examples" / EXAMPLE).read_text("utf-8")
    page = _with_block(page, f"python file={EXAMPLE}", script)
    return _with_block(page, f"text output={EXAMPLE}", printed(language))


def _with_block(page: str, head: str, body: str) -> str:
    pattern = re.compile(_BLOCK.format(head=re.escape(head)), re.MULTILINE | re.DOTALL)
    return pattern.sub(lambda block: f"{block[1]}{body}{block[2]}", page)


def main() -> int:
    """Write both pages."""
    for language, path in READMES.items():
        path.write_text(filled(path.read_text("utf-8"), language), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
