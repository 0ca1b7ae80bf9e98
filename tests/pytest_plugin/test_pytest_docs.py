"""The page about the plugin says what happens."""

from __future__ import annotations

import re
from pathlib import Path

pytest_plugins = ["pytester"]

PAGE = (Path(__file__).parents[2] / "docs" / "pytest.md").read_text("utf-8")


def block(words):
    return re.search(rf"^```{re.escape(words)}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)[1]


def test_the_example(suite, pytester):
    pytester.makepyfile(test_two_gpus=block("python file=test_two_gpus.py"))
    suite("", "test_two_gpus.py").assert_outcomes(passed=1, skipped=1)
    result = suite("", "--machine", "2x24GB", "test_two_gpus.py")
    result.assert_outcomes(passed=1, failed=1)
    assert block("text output=test_two_gpus.py") in str(result.stdout)


def test_every_option_is_on_the_page(suite):
    text = str(suite("", "--help").stdout)
    ours = text[text.index("virtual GPUs") :].partition("\n\n")[0]
    options = re.findall(r"--[a-z-]+", ours)
    assert {"--machine", "--on-mismatch", "--device-findings"} <= set(options)
    assert all(f"`{option}" in PAGE for option in options if option != "--help")
