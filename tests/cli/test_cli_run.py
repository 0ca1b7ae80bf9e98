"""`samedevice run` end to end: exit status, JSON, interruptions, wrong usage, closed streams."""

from __future__ import annotations

import json
import os
import signal
import stat
import time
from pathlib import Path

import pytest
from cli_shell import STAND_IN

STAND_IN_RUN = [*STAND_IN, "run"]
SEE = "import stand_in\nstand_in.see()\n"


def read(shell, name="out.json"):
    return json.loads((shell.folder / name).read_text())


@pytest.mark.parametrize(
    ("found", "ending", "code", "status"),
    [
        (False, "", 0, "completed"),
        (True, "", 1, "completed"),
        (False, "raise SystemExit", 0, "completed"),
        (False, "raise SystemExit(0)", 0, "completed"),
        (False, "raise SystemExit(4)", 3, "script-error"),
        (False, "raise SystemExit('text')", 3, "script-error"),
        (True, "raise SystemExit(0)", 1, "completed"),
        (True, "raise SystemExit(4)", 1, "script-error"),
        (False, "raise ValueError", 3, "script-error"),
        (True, "raise ValueError", 1, "script-error"),
        (False, "raise KeyboardInterrupt", 130, "interrupted"),
        (True, "raise KeyboardInterrupt", 130, "interrupted"),
        (False, "raise GeneratorExit", 3, "script-error"),
    ],
)
def test_exit_status(shell, found, ending, code, status):
    shell.write("script.py", (SEE if found else "") + ending)
    got = shell.run("--json", "out.json", "script.py")
    assert got.returncode == code, got.stderr
    document = read(shell)
    assert document["status"] == status
    assert [finding["code"] for finding in document["findings"]] == ["SD101"] * found


def test_report_and_document(shell):
    shell.write("script.py", SEE + "print('mine')")
    got = shell.run("--machine", "4x16GB", "--json", "out.json", "script.py")
    assert got.stdout == "mine\n"
    assert got.stderr == (
        "SD101 cross-device-operands: add got operands on cuda:0 and cuda:1\n  script.py:2 in <module>      "
        "y = a + b\n  self     f32[2, 3]  cuda:0  made at line 2, never moved\n  other    bf16[3]    "
        "cuda:1  moved by .to() at line 1, made at line 2\n  why      add needs all operands on "
        "one device; CUDA moves none of them there by itself\n  do       the evidence does not tell which "
        "operand is wrong: follow the made and moved lines above, and compare model.hf_device_map\n  more    "
        " samedevice explain SD101\n\nsamedevice: 1 finding on 4x16GB; the script ran to its end\n  device  "
        "peak allocated  peak reserved     total\n  cuda:0         1.0 GiB        2.0 GiB  24.0 GiB\n  "
        "cuda:1             0 B            0 B  24.0 GiB\n"
    )
    document = read(shell)
    assert document["schema"] == 1
    assert document["machine"] == {"spec": "4x16GB"}
    assert document["memory"]["cuda:0"] == {
        "peak_allocated": 1 << 30,
        "peak_reserved": 2 << 30,
        "total": 24 << 30,
    }
    assert document["findings"][0]["operands"][1]["moved"]["line"] == 1


def test_fail_fast_raises_at_the_first(shell):
    shell.write("script.py", SEE + "print('not reached')")
    got = shell.run("--fail-fast", "script.py")
    assert (got.stdout, got.returncode) == ("", 1)
    assert "RuntimeError: Expected all tensors to be on the same device" in got.stderr
    assert "SD101" in got.stderr


@pytest.mark.parametrize(
    ("args", "text"),
    [
        ([], "no script named: give SCRIPT or -m MODULE"),
        (["missing.py"], "can't open script missing.py: no such file"),
        (["folder"], "can't find __main__.py in folder"),
        (["-m", "no_such_module"], "no module named no_such_module"),
        (["-m", "json.no_such_part"], "no module named json.no_such_part"),
        (["-m", "fine.part"], "no module named fine.part"),
        (["-m", "logging"], "module logging can't be run"),
        (["-m", "sys"], "module sys can't be run"),
        (["--machine", "nonsense", "fine.py"], "can't read machine 'nonsense'; try 2x24GB"),
        (
            ["--json", "no/such/folder.json", "fine.py"],
            "can't write --json no/such/folder.json: No such file or directory",
        ),
        (["--json", "folder", "fine.py"], "can't write --json folder: Is a directory"),
        (["--json", "-", "fine.py"], "--json can't write to standard output"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_wrong_usage_is_told_before_the_run(shell, args, text):
    shell.write("folder/empty.txt", "")
    shell.write("fine.py", "print('ran')")
    got = shell.run(*args)
    assert (got.stdout, got.returncode) == ("", 2)
    assert got.stderr.startswith(f"samedevice: {text}"), got.stderr
    assert got.stderr.count("\n") == 1


@pytest.mark.parametrize(
    "args", [["--no-such-option", "fine.py"], ["--lang", "none", "fine.py"], ["-m"], ["--machine"]]
)
def test_unknown_options(shell, args):
    shell.write("fine.py", "print('ran')")
    got = shell.run(*args)
    assert (got.stdout, got.returncode) == ("", 2)
    assert "Traceback" not in got.stderr


def test_unreadable_script(shell):
    script = shell.write("locked.py", "")
    script.chmod(0)
    if os.access(script, os.R_OK):
        pytest.skip("this user reads everything")
    assert shell.run("locked.py").returncode == 2


def test_wrong_usage_leaves_the_old_document_alone(shell):
    shell.write("out.json", "old")
    assert shell.run("--json", "out.json", "missing.py").returncode == 2
    assert (shell.folder / "out.json").read_text() == "old"


def test_document_goes_where_the_script_did_not_stay(shell):
    shell.write("script.py", "import os, tempfile; os.chdir(tempfile.gettempdir())")
    assert shell.run("--json", "out.json", "script.py").returncode == 0
    assert read(shell)["status"] == "completed"


def test_killed_process_leaves_no_old_document(shell):
    shell.write("out.json", "old")
    shell.write("script.py", "import os; os._exit(5)")
    got = shell.run("--json", "out.json", "script.py")
    assert got.returncode == 5
    assert (shell.folder / "out.json").read_text() == ""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_endless_script_is_interrupted(shell, number):
    shell.write("script.py", SEE + "print('ready', flush=True)\nwhile True: pass\n")
    process = shell.start("--json", "out.json", "script.py")
    assert process.stdout.readline() == "ready\n"
    process.send_signal(number)
    _, errors = process.communicate(timeout=30)
    assert process.returncode == 130
    assert errors.startswith("SD101")
    assert "1 finding on 2x24GB; the script was interrupted" in errors
    assert "Traceback" not in errors
    assert read(shell)["status"] == "interrupted"


def test_interrupt_does_not_wait_for_endless_threads(shell):
    shell.write(
        "script.py",
        "import threading, time\nthreading.Thread(target=time.sleep, args=(600,)).start()\nprint('ready', "
        "flush=True)\n",
    )
    process = shell.start("script.py")
    assert process.stdout.readline() == "ready\n"
    time.sleep(0.3)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=30)
    assert process.returncode == 130
    assert "the script was interrupted" in errors


def test_script_keeps_its_own_signal_handler(shell):
    shell.write(
        "script.py",
        "import os, signal\nsignal.signal(signal.SIGTERM, lambda *_: print('own'))\nos.kill(os.getpid(), "
        "signal.SIGTERM)\n",
    )
    got = shell.run("script.py")
    assert (got.stdout, got.returncode) == ("own\n", 0)


def test_reader_of_stdout_goes_away(shell):
    shell.write("script.py", "import sys\nfor n in range(10): print(n)\n")
    got = shell.call(["bash", "-c", 'exec "$@" > >(exec true)', "_", *STAND_IN_RUN, "script.py"])
    assert got.returncode == 0, got.stderr
    assert "Traceback" not in got.stderr and "Exception ignored" not in got.stderr
    assert "nothing found" in got.stderr


@pytest.mark.parametrize("redirection", ["2>&-", ">&-", ">&- 2>&-"])
def test_closed_streams(shell, redirection):
    shell.write("script.py", SEE)
    got = shell.call(
        ["bash", "-c", f'exec "$@" {redirection}', "_", *STAND_IN_RUN, "--json", "out.json", "script.py"]
    )
    assert got.returncode == 1
    assert "Traceback" not in got.stderr
    assert len(read(shell)["findings"]) == 1


def test_script_that_closes_standard_error(shell):
    shell.write("script.py", SEE + "import sys; sys.stderr.close()")
    assert shell.run("--json", "out.json", "script.py").returncode == 1
    assert len(read(shell)["findings"]) == 1


def test_full_disk_is_told(shell):
    if not stat.S_ISCHR(Path("/dev/full").stat().st_mode):
        pytest.skip("no /dev/full here")
    shell.write("script.py", "")
    got = shell.run("--json", "/dev/full", "script.py")
    assert got.returncode == 70
    assert "could not write /dev/full: No space left on device" in got.stderr


def test_language(shell):
    shell.write("script.py", SEE)
    assert "发现 1 个问题" in shell.run("--lang", "zh", "script.py").stderr
    assert (
        "发现 1 个问题"
        in shell.run("script.py", env={"LC_ALL": "", "LANG": "zh_CN.UTF-8", "PYTHONUTF8": "1"}).stderr
    )
    assert "1 finding" in shell.run("--lang", "en", "script.py", env={"LC_ALL": "zh_CN.UTF-8"}).stderr
    assert "1 finding" in shell.run("--lang", "zh", "script.py", env={"PYTHONIOENCODING": "ascii"}).stderr
    assert "没有指定脚本" in shell.run("--lang", "zh").stderr


def test_our_own_trouble_is_one_line(shell):
    shell.write("script.py", "import stand_in\nstand_in.Engine.current.event_counts.append(1)\n")
    got = shell.run("script.py")
    assert got.returncode == 70
    assert got.stderr.startswith("samedevice: internal error: ValueError")
    assert got.stderr.count("\n") == 1
    assert "Traceback" in shell.run("script.py", env={"SAMEDEVICE_DEBUG": "1"}).stderr


def test_json_is_whole_or_not_there(shell):
    shell.write("script.py", "import stand_in\nstand_in.Engine.current.event_counts.append(1)\n")
    old = shell.write("found.json", "{}")
    assert shell.run("--json", "found.json", "script.py").returncode == 70
    assert not old.exists()
    shell.write(
        "forks.py", "import os, sys\nif os.fork() == 0:\n    sys.exit(7)\nos.wait()\n"
    )  # the child has nothing to discard
    assert shell.run("--json", "found.json", "forks.py").returncode == 0
    assert json.loads(old.read_text())["status"] == "completed"


HELPED = """
import multiprocessing, subprocess, sys, time
from multiprocessing import resource_tracker, shared_memory

def nap():
    time.sleep(0.01)

if __name__ == "__main__":
    memory = shared_memory.SharedMemory(create=True, size=16)
    memory.close(), memory.unlink()
    for kind in ("spawn", "forkserver"):
        process = multiprocessing.get_context(kind).Process(target=nap)
        process.start(), process.join()
    subprocess.Popen([sys.executable, "-S", "-c", "import time; time.sleep(0.2)"])  # ends by itself
    assert resource_tracker._resource_tracker._pid
"""


def test_pythons_own_helpers_are_not_left_behind(shell):
    shell.write("script.py", HELPED)
    got = shell.run("script.py")
    assert got.returncode == 0
    assert "left behind" not in got.stderr


def test_processes_that_are_left_behind_are_ended(shell):
    sleep = "[sys.executable, '-c', 'import time; time.sleep(100)']"
    shell.write("script.py", f"import subprocess, sys\nprint(subprocess.Popen({sleep}).pid)\n")
    got = shell.run("script.py")
    assert got.returncode == 0
    assert got.stderr.startswith(
        f"samedevice: processes that the script had started and left behind were ended: {got.stdout}"
    )
    process = Path(f"/proc/{got.stdout.strip()}/stat")
    assert not process.exists() or ") Z " in process.read_text()


def test_a_page(shell):
    shell.write("script.py", SEE)
    got = shell.run("--html", "out.html", "--lang", "zh", "script.py")
    assert got.returncode == 1, got.stderr
    page = (shell.folder / "out.html").read_text("utf-8")
    assert page.startswith("<!doctype html>") and page.endswith("</html>")
    assert "y = a + b" in page and "1 个问题" in page


def test_a_trace(shell):
    shell.write("script.py", SEE)
    got = shell.run("--trace", "out.json", "script.py")
    assert got.returncode == 1, got.stderr
    trace = json.loads((shell.folder / "out.json").read_text("utf-8"))
    assert trace["otherData"]["operators"] > 0
    assert {"X", "C", "M"} <= {event["ph"] for event in trace["traceEvents"]}
    got = shell.run("--trace", "out.json", "--launcher", "torchrun", "script.py")
    assert got.returncode == 2
    assert "--trace is for a program of one process" in got.stderr


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("no/such/folder.html", "can't write --html no/such/folder.html: No such file or directory"),
        ("-", "--html can't write to standard output"),
    ],
)
def test_a_page_that_cannot_be_written(shell, path, said):
    shell.write("script.py", "print('ran')")
    got = shell.run("--json", "out.json", "--html", path, "script.py")
    assert (got.returncode, got.stdout) == (2, "")
    assert said in got.stderr
    assert not (shell.folder / "out.json").exists()
