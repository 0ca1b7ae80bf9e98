"""Memory sizes as people write them: 24GB, 80G, 80 GiB, 81920MiB.

Every prefix is binary, as for all GPU memory.
"""

from __future__ import annotations

import re

_MIB_PER_UNIT = {
    "m": 1,
    "mb": 1,
    "mib": 1,
    "g": 1024,
    "gb": 1024,
    "gib": 1024,
    "t": 1 << 20,
    "tb": 1 << 20,
    "tib": 1 << 20,
}

# Nine digits are enough for any size, and keep int() away from text it refuses.
_SIZE = re.compile(r"(\d{1,9}(?:\.\d{1,6})?)[\s_-]*([a-z]+)", re.ASCII | re.IGNORECASE)


def size_in_mib(text: str) -> int | None:
    """Whole MiB of a size with a known unit; None when `text` is no such thing or rounds to nothing."""
    match = _SIZE.fullmatch(text.strip())
    per_unit = _MIB_PER_UNIT.get(match[2].lower()) if match else None
    if match is None or per_unit is None:
        return None
    return int(float(match[1]) * per_unit) or None


def looks_like_size(text: str) -> re.Match[str] | None:
    """A number and a word that may or may not be a unit: `9999XB` too."""
    return _SIZE.fullmatch(text.strip())


def size_text(mib: int) -> str:
    """The shortest spelling that `size_in_mib` reads back: `24GB`, `1536MiB`."""
    return f"{mib // 1024}GB" if mib % 1024 == 0 else f"{mib}MiB"
