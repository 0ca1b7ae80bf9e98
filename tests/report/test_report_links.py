"""Links are for terminals that are known to open them, and lead to files that are there."""

from __future__ import annotations

import pytest

from samedevice.events import Place
from samedevice.report._links import link_of, takes_links


@pytest.mark.parametrize(
    ("variables", "taken"),
    [
        ({}, False),
        ({"TERM": "xterm-256color"}, False),
        ({"TERM_PROGRAM": "Apple_Terminal"}, False),
        ({"TERM_PROGRAM": "vscode"}, True),
        ({"TERM": "xterm-kitty"}, True),
        ({"VTE_VERSION": "5000"}, False),
        ({"VTE_VERSION": "6800"}, True),
        ({"WT_SESSION": ""}, False),
        ({"FORCE_HYPERLINK": "1"}, True),
        ({"FORCE_HYPERLINK": "0", "TERM_PROGRAM": "vscode"}, False),
    ],
)
def test_which_terminals_take_links(variables, taken):
    assert takes_links(variables) is taken


def test_a_link_leads_to_a_file_that_is_there(tmp_path):
    path = tmp_path / "a b.py"
    path.write_text("")
    assert link_of(Place(str(path), 3, "f")) == f"{path.as_uri()}#3"
    assert link_of(Place(str(tmp_path / "gone.py"), 3, "f")) is None
    assert link_of(Place("a b.py", 3, "f")) is None
