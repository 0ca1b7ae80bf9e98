"""Places that a terminal opens on a click: OSC 8 hyperlinks, only where the terminal is known to take them.

The text says file and line in any case; a terminal that does not know the sequence could print it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from samedevice.events import Place

_PROGRAMS = frozenset(
    ("iTerm.app", "WezTerm", "vscode", "ghostty", "Hyper", "mintty", "Tabby", "rio", "WarpTerminal", "zed")
)
_TERMINALS = ("xterm-kitty", "xterm-ghostty", "alacritty", "foot", "wezterm", "contour")
_SIGNS: Mapping[str, Callable[[str], bool]] = {
    "TERM_PROGRAM": lambda value: value in _PROGRAMS,
    "TERM": lambda value: value.startswith(_TERMINALS),
    "VTE_VERSION": lambda value: value.isdecimal() and int(value) > 5000,  # 0.50.0 crashed on them
    "KONSOLE_VERSION": lambda value: value.isdecimal() and int(value) >= 201200,
    "WT_SESSION": bool,
    "DOMTERM": bool,
}
"""Variables by which terminals that take hyperlinks make themselves known."""


def takes_links(environment: Mapping[str, str]) -> bool:
    """Whether the terminal takes hyperlinks; `FORCE_HYPERLINK` says so against all signs, `0` that it does
    not.
    """
    if (forced := environment.get("FORCE_HYPERLINK")) is not None:
        return forced != "0"
    return any(sign(environment.get(name, "")) for name, sign in _SIGNS.items())


def link_of(place: Place) -> str | None:
    """The address of a place; None where its file is not on this machine."""
    path = Path(place.file)
    if not path.is_absolute() or not path.is_file():
        return None
    return f"{path.as_uri()}#{place.line}" if place.line else path.as_uri()
