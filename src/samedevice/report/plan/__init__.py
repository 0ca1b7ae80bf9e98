"""How placement plans are shown: plans, maps that were there already, and machines that would do."""

from __future__ import annotations

from samedevice.report.plan._checked import CheckedMap
from samedevice.report.plan._document import workload_document
from samedevice.report.plan._drawing import working
from samedevice.report.plan._facts import PHASES
from samedevice.report.plan._offers import offers_document, print_offers
from samedevice.report.plan._pipeline import (
    picture_document,
    pipeline_document,
    pipeline_findings,
    pipeline_foot,
    pipeline_head,
    pipeline_script,
    pipeline_shown,
    pipeline_state,
)
from samedevice.report.plan._plan import Plan
from samedevice.report.plan._training import (
    no_training_document,
    training_document,
    training_rows,
    training_shown,
)

__all__ = [
    "PHASES",
    "CheckedMap",
    "Plan",
    "no_training_document",
    "offers_document",
    "picture_document",
    "pipeline_document",
    "pipeline_findings",
    "pipeline_foot",
    "pipeline_head",
    "pipeline_script",
    "pipeline_shown",
    "pipeline_state",
    "print_offers",
    "training_document",
    "training_rows",
    "training_shown",
    "working",
    "workload_document",
]
