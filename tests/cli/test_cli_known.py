"""Settings, ignored findings, baselines, formats and detail of `samedevice run`, end to end."""

from __future__ import annotations

import json

SEE = "import stand_in\nstand_in.see()\n"
LINE = "script.py:2: SD101 cross-device-operands: add got operands on cuda:0 and cuda:1\n"


def settle(shell, text):
    shell.write("pyproject.toml", f"[tool.samedevice]\n{text}\n")


def test_a_comment_leaves_its_finding_out_and_the_run_is_fine(shell):
    shell.write("script.py", "import stand_in\nstand_in.see()  # samedevice: ignore[SD101] known\n")
    got = shell.run("--json", "out.json", "script.py")
    assert got.returncode == 0
    assert "samedevice: no new findings on 2x24GB" in got.stderr
    assert "samedevice: ignored: 1 by a comment (-v lists them)" in got.stderr
    document = json.loads((shell.folder / "out.json").read_text())
    assert document["findings"] == []
    (ignored,) = document["ignored"]
    assert (ignored["by"], ignored["reason"], ignored["line"]) == ("comment", "known", 2)
    assert ignored["finding"]["code"] == "SD101"
    verbose = shell.run("-v", "script.py").stderr
    assert "ignored SD101 at script.py:2, by the comment at script.py:2: known" in verbose


def test_a_comment_that_cannot_be_understood_ends_the_run_before_the_script(shell):
    shell.write("script.py", "print('ran')  # samedevice: ignore\n")
    got = shell.run("script.py")
    assert (got.returncode, got.stdout) == (2, "")
    assert "script.py:1: this comment names no code" in got.stderr


def test_a_comment_of_a_module_is_read_too(shell):
    shell.write("own.py", "x = 1  # samedevice: ignore[SD999] why\n")
    shell.write("script.py", "import own\n")
    got = shell.run("-q", "script.py")
    assert (got.returncode, got.stderr) == (
        2,
        "samedevice: own.py:1: this comment ignores nothing: no rule has the code SD999\n",
    )


def test_a_baseline_lets_only_new_findings_count(shell):
    shell.write("script.py", SEE)
    missing = shell.run("--baseline", "known.json", "script.py")
    assert missing.returncode == 2 and "--write-baseline writes one" in missing.stderr
    assert shell.run("--baseline", "known.json", "--write-baseline", "script.py").returncode == 0
    shell.write("script.py", "import stand_in\n\n\nstand_in.see()\n")
    assert shell.run("--baseline", "known.json", "script.py").returncode == 0
    shell.write("script.py", SEE + "stand_in.see(code='c * d')\n")
    got = shell.run("-q", "--baseline", "known.json", "script.py")
    assert (got.returncode, got.stderr) == (1, LINE.replace(":2:", ":3:"))
    shell.write("script.py", "import stand_in\n")
    got = shell.run("--baseline", "known.json", "script.py")
    assert got.returncode == 0 and "entries of the baseline that no longer occur: 1" in got.stderr
    failed = shell.write("script.py", "raise ValueError\n")
    assert "no longer occur" not in shell.run("--baseline", "known.json", failed.name).stderr
    assert "--baseline FILE" in shell.run("--write-baseline", "script.py").stderr


def test_settings_are_read_and_the_command_line_wins(shell):
    shell.write("script.py", SEE)
    settle(shell, 'machine = "4x16GB"\nlanguage = "zh"\nignore = [{code = "SD101", reason = "known"}]')
    got = shell.run("script.py")
    assert got.returncode == 0 and "在 4x16GB 上没有新问题" in got.stderr
    assert "on 2x80GB" in shell.run("--machine", "2x80GB", "--lang", "en", "script.py").stderr
    settle(shell, "machin = 1")
    got = shell.run("script.py")
    assert got.returncode == 2 and "has no key machin" in got.stderr
    assert shell.run("--help").returncode == 0


def test_quiet_is_one_line_a_finding(shell):
    shell.write("script.py", SEE + "print('mine')\n")
    got = shell.run("-q", "script.py")
    assert (got.returncode, got.stdout, got.stderr) == (1, "mine\n", LINE)
    assert shell.run("-q", "-v", "script.py").returncode == 2


def test_formats_go_to_standard_error_or_to_a_file(shell):
    shell.write("script.py", SEE)
    got = shell.run("--output-format", "github", "script.py")
    assert got.returncode == 1 and got.stderr.startswith("::error file=script.py,line=2,title=SD101 ")
    for form, key in (("sarif", "runs"), ("json", "findings")):
        got = shell.run("--output-format", form, "--output-file", "out", "script.py")
        assert got.returncode == 1 and got.stderr.startswith("SD101 cross-device-operands")
        assert key in json.loads((shell.folder / "out").read_text())
    assert "findings" in json.loads(shell.run("--output-format", "json", "script.py").stderr)
    assert shell.run("--output-format", "xml", "script.py").returncode == 2
    assert shell.run("--output-format", "sarif", "--output-file", "no/out", "script.py").returncode == 2
