"""Every repair of an event's cause."""

from __future__ import annotations

from samedevice.diagnosis._failure import Failure
from samedevice.diagnosis._weigh import Verdict
from samedevice.diagnosis.fixes._releases import releases_of_event
from samedevice.diagnosis.fixes._script import script_fixes
from samedevice.findings import Fix
from samedevice.messages import Phrase


def fixes_for(failure: Failure, verdict: Verdict) -> tuple[Fix[Phrase], ...]:
    """What repairs an event's cause, the surest first."""
    failure = failure.as_given()
    return (*script_fixes(failure, verdict), *releases_of_event(failure, verdict))
