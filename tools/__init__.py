"""Commands of a checkout; they find samedevice beside them, installed or not."""

import sys
from pathlib import Path

SOURCES = str(Path(__file__).resolve().parents[1] / "src")
if SOURCES not in sys.path:
    sys.path.insert(0, SOURCES)
