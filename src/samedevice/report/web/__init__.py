"""Plans and runs as pages: one file each, which loads nothing, runs no script and escapes every value."""

from samedevice.report.web._pipeline_page import pipeline_page
from samedevice.report.web._plan_page import plan_page
from samedevice.report.web._run_page import run_page
from samedevice.report.web._sweep_page import sweep_page
from samedevice.report.web._training_page import training_page

__all__ = ["pipeline_page", "plan_page", "run_page", "sweep_page", "training_page"]
