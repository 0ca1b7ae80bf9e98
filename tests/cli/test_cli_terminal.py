"""On a terminal: the status line comes and goes without touching the script's lines; width and colour are the
terminal's.
"""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import subprocess
import termios

import pytest
from cli_shell import STAND_IN, environment

RUN = [*STAND_IN, "run"]
SEE = "import stand_in\nstand_in.see()\n"
COLOUR = re.compile(r"\x1b\[[0-9;]*m")


def on_terminal(shell, *args, columns=80, typed="", **variables):
    """Run with all three streams on one terminal; what appeared on it."""
    leader, follower = pty.openpty()
    fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    process = subprocess.Popen(
        [*RUN, *args],
        cwd=shell.folder,
        env=environment(TERM="xterm-256color", **variables),
        stdin=follower,
        stdout=follower,
        stderr=follower,
    )
    os.close(follower)
    os.write(leader, typed.encode())
    shown = b""
    while True:
        try:
            part = os.read(leader, 65536)
        except OSError:  # the other end is closed
            break
        if not part:
            break
        shown += part
    os.close(leader)
    assert process.wait(timeout=30) in (0, 1)
    return shown.decode().replace("\r\n", "\n")


def screen(text):
    """What is left on the screen: each line as its last wipe left it."""
    return [line.rpartition("\r\x1b[2K")[2] for line in text.split("\n")]


def test_status_line_comes_and_goes(shell):
    shell.write(
        "script.py",
        "import sys, time\n"
        + SEE
        + "for n in range(3):\n    time.sleep(0.35)\n    print('line', n)\n    print('err', n, "
        "file=sys.stderr)\n",
    )
    shown = on_terminal(shell, "script.py")
    assert "0:00  operators 1  findings 1  cuda:0 1.0 GiB" in shown
    left = screen(shown)
    assert left[:6] == ["line 0", "err 0", "line 1", "err 1", "line 2", "err 2"]
    assert "operators" not in "".join(left)


def test_status_line_waits_for_the_end_of_a_line(shell):
    shell.write(
        "script.py", "import time\nprint('half', end='', flush=True)\ntime.sleep(0.6)\nprint(' and half')\n"
    )
    shown = on_terminal(shell, "script.py")
    assert shown.startswith("half and half\n")


def test_status_line_keeps_out_of_a_question(shell):
    shell.write("script.py", "import time\nprint('name', end='? ', flush=True)\nprint('hello', input())\n")
    shown = on_terminal(shell, "script.py", typed="Ada\n")
    assert "hello Ada\n" in shown
    assert "operators" not in shown.partition("hello Ada")[0]


def test_streams_are_the_same_objects_afterwards(shell):
    shell.write(
        "script.py",
        "import sys, atexit\nprint(sys.stdout is sys.__stdout__, type(sys.stdout).__name__, "
        "sys.stdout.isatty())\n",
    )
    assert on_terminal(shell, "script.py").startswith("True TextIOWrapper True\n")


def test_no_status_line_on_a_dumb_terminal(shell):
    shell.write("script.py", "import time; time.sleep(0.5)")
    leader, follower = pty.openpty()
    got = subprocess.run(
        [*RUN, "script.py"],
        cwd=shell.folder,
        env=environment(TERM="dumb"),
        stderr=follower,
        stdout=follower,
        check=False,
    )
    os.close(follower)
    shown = os.read(leader, 65536)
    os.close(leader)
    assert got.returncode == 0
    assert b"\x1b" not in shown


def test_narrow_terminal(shell):
    shell.write("script.py", SEE)
    shown = COLOUR.sub("", on_terminal(shell, "script.py", columns=40))
    assert max(map(len, screen(shown))) <= 40
    assert "  other    bf16[3]    cuda:1\n    moved by .to() at line 1, made at" in shown
    assert "  cuda:0  1.0 GiB / 24.0 GiB\n" in shown


def test_colour_only_where_wanted(shell):
    shell.write("script.py", SEE)
    assert "\x1b[1;31mSD101" in on_terminal(shell, "script.py")
    assert "\x1b[31m" not in on_terminal(shell, "script.py", NO_COLOR="1")
    assert "\x1b" not in shell.run("script.py").stderr


@pytest.mark.parametrize("columns", [1, 12])
def test_absurd_width(shell, columns):
    shell.write("script.py", SEE)
    assert "SD" in on_terminal(shell, "script.py", columns=columns)
