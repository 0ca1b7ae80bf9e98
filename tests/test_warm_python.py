"""The Python that tests start in place of a new one."""

from __future__ import annotations

import subprocess
import sys

import pytest

LOADED = "import sys; print('torch' in sys.modules, sys.argv)"
CHILD = f"import subprocess, sys; subprocess.run([sys.executable, '-u', '-B', '-c', {LOADED!r}, 'a', '-u'])"


def said(*words, **options):
    done = subprocess.run(
        [sys.executable, *words], capture_output=True, encoding="utf-8", check=False, **options
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.usefixtures("warm")
def test_a_program_is_warm_and_what_it_starts_is_not():
    assert said("-c", LOADED) == "True ['-c']\n"
    assert said("-c", CHILD) == "False ['-c', 'a', '-u']\n"
    assert said("-I", "-c", LOADED) == "False ['-c']\n"


@pytest.mark.usefixtures("warm_children")
def test_what_a_program_starts_is_warm_where_it_is_asked_for():
    assert said("-c", CHILD) == "True ['-c', 'a', '-u']\n"


@pytest.mark.usefixtures("warm")
def test_the_encoding_of_the_environment_holds(monkeypatch):
    monkeypatch.setenv("PYTHONIOENCODING", "utf-8")
    echo = "import sys; print(sys.stdin.read(), sys.stdin.encoding, sys.stdout.encoding, sys.stderr.encoding)"
    assert said("-c", echo, input="语言") == "语言 utf-8 utf-8 utf-8\n"


@pytest.mark.usefixtures("warm")
def test_the_customization_on_the_path_of_the_environment_runs(tmp_path, monkeypatch):
    (tmp_path / "sitecustomize.py").write_text("import sys; sys.customized = 'yes'")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    assert said("-c", "import sys; print(sys.customized)") == "yes\n"
