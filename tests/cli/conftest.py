"""A folder of its own for each test's scripts."""

from __future__ import annotations

import pytest
from cli_shell import Shell


@pytest.fixture
def shell(tmp_path, warm_executable):
    shell = Shell(tmp_path, warm_executable)
    yield shell
    shell.close()
