"""A notebook file, as it is saved: the text of its error outputs and of what it printed to standard error."""

from __future__ import annotations

import json
from typing import Any


def notebook_text(text: str) -> str | None:
    """What the cells of a notebook file show as errors; None when the text is no notebook."""
    if not text.lstrip()[:1] == "{" or '"cells"' not in text:
        return None
    try:
        cells = json.loads(text)["cells"]
        parts = [part for cell in cells for output in cell.get("outputs", ()) for part in _parts(output)]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None
    return "\n".join(parts) if parts else None


def _parts(output: dict[str, Any]) -> list[str]:
    if output.get("output_type") == "error":
        return [*map(str, output.get("traceback") or ()), f"{output.get('ename')}: {output.get('evalue')}"]
    if output.get("output_type") == "stream" and output.get("name") == "stderr":
        held = output.get("text", "")
        return ["".join(held) if isinstance(held, list) else str(held)]
    return []
