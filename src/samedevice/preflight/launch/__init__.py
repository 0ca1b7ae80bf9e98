"""Reading a launch: the shell, documents and settings that name it, and what its launcher makes of them."""

from __future__ import annotations

from samedevice.preflight.launch.configuration import without_option
from samedevice.preflight.launch.launch import Launch, visible_of
from samedevice.preflight.launch.target import SHOWN, Request, launches_of, starts_in
from samedevice.preflight.launch.tools import begins_tool

__all__ = [
    "SHOWN",
    "Launch",
    "Request",
    "begins_tool",
    "launches_of",
    "starts_in",
    "visible_of",
    "without_option",
]
