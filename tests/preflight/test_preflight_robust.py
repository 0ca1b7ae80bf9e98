"""Whatever the input: a verdict or a clear error, in bounded time, and nothing of it is ever run."""

from __future__ import annotations

import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from samedevice.errors import UsageError
from samedevice.machines import parse_machine
from samedevice.preflight import Request, preflight
from samedevice.report import TextRenderer, worded_errors

MACHINE = parse_machine("2x24GB")


def judge(path, **options):
    with worded_errors():
        return preflight(Request(path, MACHINE, environment={}, **options))


@pytest.mark.parametrize(
    ("name", "content", "word"),
    [
        ("a.py", b"\x7fELF\x00\x01", "not a text file"),
        ("a.py", b"\xff\xfe\xfa", "not a text file"),
        ("a.py", b"def f(:\n", "line 1"),
        ("a.py", b"(" * 100_000, "a.py"),
        ("a.py", b"x = 1\n" * 400_000, "too large"),
        ("a.yaml", b"a: [1, 2\n", "line 2"),
        ("a.yaml", b"- 1\n- 2\n", "no settings by name"),
        ("a.yaml", b"a: !!python/object/apply:os.system ['true']\n", "line 1"),
        ("a.yaml", b"a: &a [x, x]\nb: &b [*a, *a]\nc: [*b, *b]\n", "aliases"),
        ("a.yaml", b"[" * 5_000, "a.yaml"),
        ("a.json", b'{"a": ', "line 1"),
        ("a.json", b'{"a":' * 100_000, "a.json"),
        ("a.sh", b"echo nothing\n", "starts no Python program"),
        ("a.toml", b"a = 1\n", "neither"),
    ],
)
def test_bad_files(name, content, word, tmp_path):
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(UsageError, match=word):
        judge(path)


def test_missing_file_and_folder(tmp_path):
    for path in (tmp_path / "none.py", tmp_path / "none.yaml", tmp_path):
        with pytest.raises(UsageError):
            judge(path)


def test_nothing_is_run(tmp_path):
    trace = tmp_path / "trace"
    script = tmp_path / "a.py"
    script.write_text(
        f'open("{trace}", "w")\n__import__("os").system("touch {trace}")\nexec("import os; '
        f"os.mkdir('{trace}')\")\n"
    )
    judge(script, launcher="torchrun")
    shell = tmp_path / "a.sh"
    shell.write_text(f"X=$(touch {trace})\ntouch {trace}\npython a.py $(touch {trace}) `touch {trace}`\n")
    judge(shell)
    assert not trace.exists()


@pytest.mark.parametrize(
    "source",
    [
        "while True:\n    pass\n",
        "def f(n):\n    return f(n - 1) + f(n - 2)\nf(30)\n",
        "x = 'a' * 10 ** 9\ny = 9 ** 9 ** 9\n",
        "x = []\nx.append(x)\nprint(x == x)\n",
        "import a\nfrom . import b\nfrom .. import c\n",
        "for i in range(10 ** 9):\n    for j in range(10 ** 9):\n        pass\n",
        "class A(A0):\n    def __init__(self):\n        super().__init__()\n        self.a = A()\nA()\n",
        "x = {}\nx[0] = x\ny = {**x, **x}\n",
        "import os\nos.environ['CUDA_VISIBLE_DEVICES'] = ''\n"
        "from transformers import AutoModel\nAutoModel.from_pretrained('m', device_map='auto')\n",
    ],
)
def test_odd_scripts_end(source, tmp_path):
    path = tmp_path / "a.py"
    path.write_text(source)
    (judgement,) = judge(path, launcher="torchrun")
    assert judgement.findings == ()


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    text=st.text(alphabet="abx01 \n\t$(){}[]\"'`\\=:-#&|;,*@!~", max_size=120),
    suffix=st.sampled_from([".sh", ".yaml", ".json", ".py"]),
)
def test_any_text_gives_a_verdict_or_a_clear_error(text, suffix, tmp_path):
    path = tmp_path / f"a{suffix}"
    path.write_text(text, "utf-8")
    try:
        found = judge(path)
    except UsageError:
        return
    json.dumps([judgement.as_json(MACHINE.describe(), TextRenderer()) for judgement in found])
