"""Calls in processes of their own, several at once, each with a time limit."""

from __future__ import annotations

import json
import os
import selectors
import signal
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

_Item = TypeVar("_Item")


def answers(
    work: Callable[[_Item], dict[str, Any]], items: Sequence[_Item], jobs: int, seconds: int
) -> Iterator[tuple[_Item, dict[str, Any] | None]]:
    """What `work` returns for each item, as they end; None for one that died or took longer than `seconds`.

    What it returns goes through JSON.
    """
    waiting = list(reversed(items))
    with selectors.DefaultSelector() as selector:
        while waiting or selector.get_map():
            while waiting and len(selector.get_map()) < jobs:
                item = waiting.pop()
                child, reading = _forked(work, item, seconds)
                selector.register(reading, selectors.EVENT_READ, (item, child, bytearray()))
            for key, _ in selector.select():
                item, child, heard = key.data
                if part := os.read(key.fd, 1 << 16):
                    heard += part
                    continue
                selector.unregister(key.fd)
                os.close(key.fd)
                os.waitpid(child, 0)
                yield item, json.loads(heard) if heard else None


def _forked(work: Callable[[_Item], dict[str, Any]], item: _Item, seconds: int) -> tuple[int, int]:
    """The process that works on an item, and the pipe of its answer."""
    reading, writing = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12 counts torch's idle threads
        child = os.fork()
    if child == 0:
        try:
            os.close(reading)
            signal.alarm(seconds)
            text = json.dumps(work(item))
            with os.fdopen(writing, "w") as pipe:
                pipe.write(text)
        finally:
            os._exit(0)
    os.close(writing)
    return child, reading
