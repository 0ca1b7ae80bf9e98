"""A plugin of pytest that runs some cases of each test with parameters.

    pytest -p evidence.environments.some_cases --cases 3

Must guarantee: each test function keeps a case, and the same ones are kept each time: the first, the last,
and evenly between.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import pytest

Case = TypeVar("Case")


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--cases N`."""
    parser.addoption("--cases", type=int, default=0, help="at most so many cases of each test; 0 for all")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the other cases."""
    wanted = config.option.cases
    if wanted < 1:
        return
    by_function: dict[str, list[pytest.Item]] = {}
    for item in items:
        by_function.setdefault(item.nodeid.partition("[")[0], []).append(item)
    kept = {item for cases in by_function.values() for item in spread(cases, wanted)}
    left_out = [item for item in items if item not in kept]
    items[:] = [item for item in items if item in kept]
    config.hook.pytest_deselected(items=left_out)


def spread(cases: Sequence[Case], wanted: int) -> list[Case]:
    """At most `wanted` of the cases, the first and the last among them."""
    if len(cases) <= wanted:
        return list(cases)
    if wanted == 1:
        return [cases[0]]
    return [cases[number * (len(cases) - 1) // (wanted - 1)] for number in range(wanted)]
