"""The script that `launch-proof` gives to each launcher."""

from __future__ import annotations

from pathlib import Path

import pytest

from evidence.launches.launch_proof import LAUNCHERS
from evidence.launches.trained_rank import kind_and_folder
from samedevice.launchers import launcher_named


@pytest.mark.parametrize("kind", LAUNCHERS)
def test_a_rank_knows_its_kind_whatever_its_launcher_puts_in_front(kind):
    added = ["--local_rank=1"] if launcher_named(LAUNCHERS[kind]).passes_local_rank([]) else []
    assert kind_and_folder([*added, kind, "/out"]) == (kind, Path("/out"))
