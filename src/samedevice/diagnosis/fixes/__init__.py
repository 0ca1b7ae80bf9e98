"""Repairs: a diff of the user's script, a device_map, a release to install.

Where the fault is in library code, a repair is said in words. A module comes in with the first of its names
that is asked for: who explains a text needs no editor of sources.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from samedevice.parts import on_demand

if TYPE_CHECKING:
    from samedevice.diagnosis.fixes._combine import changes_of, combined, lines_before
    from samedevice.diagnosis.fixes._device_map import with_map_entry
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
    from samedevice.diagnosis.fixes._every import fixes_for
    from samedevice.diagnosis.fixes._host import Held, brought_to_host
    from samedevice.diagnosis.fixes._releases import releases_for
    from samedevice.diagnosis.fixes._script import fix_at_use
    from samedevice.diagnosis.fixes._source import Script, lines_of
    from samedevice.diagnosis.fixes._united import changes_line, united, with_others
    from samedevice.diagnosis.fixes._unwrap import unwrapped

__all__ = [
    "RANK_MAP",
    "Held",
    "Script",
    "brought_to_host",
    "changes_line",
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
    "unwrapped",
    "with_import",
    "with_keyword",
    "with_line_before",
    "with_map_entry",
    "with_others",
]

__getattr__, __dir__ = on_demand(
    __name__,
    {
        "_combine": ("changes_of", "combined", "lines_before"),
        "_device_map": ("with_map_entry",),
        "_edit": (
            "RANK_MAP",
            "file_diff",
            "lifted",
            "moved",
            "reduced",
            "script_diff",
            "swapped",
            "with_import",
            "with_keyword",
            "with_line_before",
        ),
        "_every": ("fixes_for",),
        "_host": ("Held", "brought_to_host"),
        "_releases": ("releases_for",),
        "_script": ("fix_at_use",),
        "_source": ("Script", "lines_of"),
        "_united": ("changes_line", "united", "with_others"),
        "_unwrap": ("unwrapped",),
    },
)
