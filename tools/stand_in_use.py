"""A pytest plugin for `tools.peers`: notes of each test which stand-ins of the hub's models it opened, as a property of its report.

What a test's child processes open is not seen.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator

import pytest

_opened: set[str] = set()
_PATH = re.compile(re.escape(os.environ.get("HF_HUB_CACHE", os.devnull)) + r"/models--([^/]+)/snapshots/")


def _see(event: str, arguments: tuple[object, ...]) -> None:
    if event == "open" and isinstance(arguments[0], str) and (path := _PATH.match(arguments[0])):
        _opened.add(path[1].replace("--", "/"))


sys.addaudithook(_see)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item) -> Iterator[None]:
    item.user_properties += [("stand_in", name) for name in sorted(_opened)]
    _opened.clear()
    return (yield)
