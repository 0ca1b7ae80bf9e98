"""Repairs: a diff of the user's script, a device_map, a release to install.

Where the fault is in library code, a repair is said in words.
"""

from __future__ import annotations

from samedevice.diagnosis._failure import Failure
from samedevice.diagnosis._weigh import Verdict
from samedevice.diagnosis.fixes._combine import changes_of, combined, lines_before
from samedevice.diagnosis.fixes._edit import (
    RANK_MAP,
    file_diff,
    lifted,
    moved,
    reduced,
    script_diff,
    swapped,
    with_import,
    with_keyword,
    with_line_before,
)
from samedevice.diagnosis.fixes._host import Held, brought_to_host
from samedevice.diagnosis.fixes._releases import releases_for, releases_of_event
from samedevice.diagnosis.fixes._script import fix_at_use, script_fixes
from samedevice.diagnosis.fixes._source import Script, lines_of
from samedevice.diagnosis.fixes._united import united, with_others
from samedevice.findings import Fix
from samedevice.messages import Phrase

__all__ = [
    "RANK_MAP",
    "Held",
    "Script",
    "brought_to_host",
    "changes_of",
    "combined",
    "file_diff",
    "fix_at_use",
    "fixes_for",
    "lifted",
    "lines_before",
    "lines_of",
    "moved",
    "reduced",
    "releases_for",
    "script_diff",
    "swapped",
    "united",
    "with_import",
    "with_keyword",
    "with_line_before",
    "with_others",
]


def fixes_for(failure: Failure, verdict: Verdict) -> tuple[Fix[Phrase], ...]:
    """What repairs an event's cause, the surest first."""
    return (*script_fixes(failure, verdict), *releases_of_event(failure, verdict))
