"""Reading what people paste: tracebacks, notebooks, logs of several ranks, a last line alone.

Plain text in, records out.

Must guarantee: any text is read in time linear in its length, and none makes it raise.
"""

from __future__ import annotations

from samedevice.diagnosis.paste._frames import REMOTE_CODE, short_file
from samedevice.diagnosis.paste._own import own_finding
from samedevice.diagnosis.paste._pattern import Pattern
from samedevice.diagnosis.paste._read import read_paste
from samedevice.diagnosis.paste._report import Frame, Report
from samedevice.diagnosis.paste._subject import names_a_device
from samedevice.diagnosis.paste._told import THING, Told, launch_in

__all__ = [
    "REMOTE_CODE",
    "THING",
    "Frame",
    "Pattern",
    "Report",
    "Told",
    "launch_in",
    "names_a_device",
    "own_finding",
    "read_paste",
    "short_file",
]
