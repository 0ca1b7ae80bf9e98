"""A pytest plugin for `peers`: which stand-ins of the hub's models each test opened.

It is a property of the test's report.

What a test's child processes open is not seen. Tests are kept from the network, too: peft's turn the hub's
offline mode off for a model's first load, and each file of a stand-in would then wait half a minute for a hub
that need not be there.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from typing import Any, NoReturn

import pytest
from huggingface_hub import set_client_factory
from huggingface_hub.errors import OfflineModeIsEnabled

_opened: set[str] = set()
_PATH = re.compile(re.escape(os.environ.get("HF_HUB_CACHE", os.devnull)) + r"/models--([^/]+)/snapshots/")


class _NoClient:
    """An HTTP client of which every request ends as in the hub's offline mode."""

    def request(self, *arguments: Any, **options: Any) -> NoReturn:
        raise OfflineModeIsEnabled("the tests of peers run with stand-ins and without the hub")

    delete = get = head = options = patch = post = put = send = stream = request

    def close(self) -> None:
        """Nothing is open."""


set_client_factory(_NoClient)  # type: ignore[arg-type]  # it wants httpx's class, of which these are all that is used


def _see(event: str, arguments: tuple[object, ...]) -> None:
    if event == "open" and isinstance(arguments[0], str) and (path := _PATH.match(arguments[0])):
        _opened.add(path[1].replace("--", "/"))


sys.addaudithook(_see)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item) -> Iterator[None]:
    item.user_properties += [("stand_in", name) for name in sorted(_opened)]
    _opened.clear()
    return (yield)
