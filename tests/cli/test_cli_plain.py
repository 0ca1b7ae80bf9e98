"""Plain calls are read without typer's conversions, and as typer reads them."""

from __future__ import annotations

import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.core import TyperCommand

from samedevice.cli.commands import Commands

TYPED = (
    "a.txt - SD101 --json -q --quiet -v --lang zh --output-format json --output-file x.json -- -qv --lang=zh "
    "--sources --download --nothing"
)
WORDS = st.lists(st.sampled_from([*TYPED.split(), ""]), max_size=5)
COMMAND = Commands()["explain"]


def read_by(reader, words):
    """The parameters of a call, or what is wrong with it."""
    context = COMMAND.context_class(COMMAND, info_name="explain")
    try:
        rest = reader(COMMAND, context, list(words))
    except Exception as error:  # typer's own classes of errors differ by release
        return type(error).__name__, str(error)
    return context.params, rest


@settings(max_examples=300, deadline=None)
@given(WORDS)
def test_a_call_is_read_as_typer_reads_it(words):
    assert read_by(type(COMMAND).parse_args, words) == read_by(TyperCommand.parse_args, words)


@pytest.mark.parametrize("words", [["a.txt"], ["-", "--json"], ["--lang", "zh", "SD101", "-q"], []])
def test_plain_calls_are_not_left_to_typer(words, monkeypatch):
    monkeypatch.setattr(TyperCommand, "parse_args", lambda *args: pytest.fail("read by typer"))
    params, rest = read_by(type(COMMAND).parse_args, words)
    assert rest == []
    assert params.keys() == {each.name for each in COMMAND.params}


def started(*words):
    return subprocess.run(
        [sys.executable, *words], capture_output=True, text=True, check=False, timeout=120, encoding="utf-8"
    )


def test_a_plain_call_does_not_wait_for_pydantic():
    program = (
        "import sys; sys.argv = ['samedevice', 'explain', 'SD101', '-q']\n"
        "from samedevice.cli import main\n"
        "try: main()\n"
        "except SystemExit as end: assert not end.code\n"
        "print('pydantic' in sys.modules, file=sys.stderr)"
    )
    assert started("-c", program).stderr.strip().endswith("False")


@pytest.mark.parametrize("name", ["explain", "machines"])
def test_a_command_has_the_help_options_of_the_program(name):
    short, long = started("-m", "samedevice", name, "-h"), started("-m", "samedevice", name, "--help")
    assert short.returncode == long.returncode == 0
    assert short.stdout == long.stdout
    assert f"samedevice {name}" in short.stdout


def test_a_wrong_word_names_the_command_and_its_help():
    wrong = started("-m", "samedevice", "explain", "--nothing")
    assert wrong.returncode == 2
    assert "Usage: samedevice explain" in wrong.stderr
    assert "samedevice explain -h" in wrong.stderr
