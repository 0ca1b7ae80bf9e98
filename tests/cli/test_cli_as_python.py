"""A script cannot tell `samedevice run` from `python`: same names, arguments, output and tracebacks."""

from __future__ import annotations

import py_compile
import zipfile

import pytest

PROBE = """\
import sys, __main__
class Thing: pass
import pickle
same = type(pickle.loads(pickle.dumps(Thing()))) is Thing
spec = __spec__ and (__spec__.name, __spec__.origin, __spec__.parent)
names = sorted(name for name in vars(__main__))
print(names, __file__, __name__, __package__, spec, type(__loader__).__name__, type(__builtins__).__name__)
print(sys.argv, sys.path[0], same, Thing.__module__, sys.modules["__main__"].Thing is Thing, hash("x"))
try:
    from inner import WORD
    print(WORD)
except ImportError:
    pass
print(sys.stdin.read())
"""
ARGS = ("--help", "--json", "-m", "x", "--", "", "a b", "-h")


def prepare(shell):
    script = shell.write("probe.py", PROBE)
    shell.write("here/probe.py", PROBE)
    shell.write("here/inner.py", "WORD = 'inner'")
    shell.write("package/__init__.py", "print('package comes first', __import__('sys').argv[1:])")
    shell.write("package/__main__.py", PROBE)
    shell.write("package/part.py", PROBE)
    shell.write("folder/__main__.py", PROBE)
    shell.write("latin.py", "# coding: latin-1\n" + PROBE)
    (shell.folder / "link.py").symlink_to(shell.folder / "here/probe.py")
    py_compile.compile(str(script), cfile=str(shell.folder / "compiled.pyc"))
    with zipfile.ZipFile(shell.folder / "packed.zip", "w") as archive:
        archive.writestr("__main__.py", PROBE)


@pytest.mark.parametrize(
    "program",
    [
        ["probe.py"],
        ["./here/probe.py"],
        ["link.py"],
        ["latin.py"],
        ["compiled.pyc"],
        ["folder"],
        ["packed.zip"],
        ["-m", "probe"],
        ["-mprobe"],
        ["-m", "package"],
        ["-m", "package.part"],
    ],
    ids=" ".join,
)
@pytest.mark.sample(3)
def test_namespace_arguments_and_input(shell, program):
    prepare(shell)
    expected = shell.python(*program, *ARGS, input="typed\n")
    got = shell.run(*program, *ARGS, input="typed\n")
    assert expected.returncode == 0, expected.stderr
    assert got.stdout == expected.stdout
    assert got.returncode == 0
    assert got.stderr.startswith("samedevice: nothing found on 2x24GB; the script ran to its end\n")


FAILURES = {
    "plain": "def f():\n    x = 1 / 0\nf()\n",
    "chained": "try:\n    {}['k']\nexcept KeyError as error:\n    raise ValueError('v') from error\n",
    "while handling": "try:\n    {}['k']\nexcept KeyError:\n    int('q')\n",
    "group": "raise ExceptionGroup('g', [ValueError(1), TypeError(2)])\n",
    "note": "e = ValueError('v'); e.add_note('a note'); raise e\n",
    "syntax": "x = (\nprint(\n",
    "indentation": "if 1:\nx\n",
    "import": "import nowhere_to_be_found\n",
    "import of a broken module": "import broken\n",
    "import of wrong syntax": "import wrong\n",
    "exit with text": "raise SystemExit('so long')\n",
    "exit with a tuple": "import sys; sys.exit((1, 2))\n",
    "own hook": "import sys\nsys.excepthook = lambda _, e, trace: print('hook', e, trace.tb_lineno, "
    "file=sys.stderr)\n1 / 0\n",
    "broken hook": "import sys\ndef hook(*_): raise RuntimeError('hook')\nsys.excepthook = hook\n1 / 0\n",
    "thread first": "import threading\nt = threading.Thread(target=lambda: int('t'), name='t')\n"
    "t.start(); t.join()\n1 / 0\n",
    "in a callback": "import functools\nfunctools.reduce(lambda a, b: a / b, [1, 0])\n",
}


@pytest.mark.parametrize("name", FAILURES)
@pytest.mark.sample(2)
def test_traceback_is_that_of_python(shell, name):
    shell.write("broken.py", "def g():\n    raise OSError('o')\ng()\n")
    shell.write("wrong.py", "x = = 1\n")
    shell.write("script.py", FAILURES[name])
    expected = shell.python("script.py")
    got = shell.run("script.py")
    assert expected.returncode == 1
    assert got.stderr.startswith(
        expected.stderr + "samedevice: nothing found on 2x24GB; the script ended with an error\n"
    )
    assert got.returncode == 3


def test_traceback_of_a_module_has_no_loader_frames(shell):
    shell.write("package/__init__.py", "")
    shell.write("package/__main__.py", "from package import part\n")
    shell.write("package/part.py", "1 / 0\n")
    got = shell.run("-m", "package")
    assert [line for line in got.stderr.splitlines() if "File" in line] == [
        f'  File "{shell.folder}/package/__main__.py", line 1, in <module>',
        f'  File "{shell.folder}/package/part.py", line 1, in <module>',
    ]
    assert got.returncode == 3


def test_package_that_fails_to_import_is_the_scripts_failure(shell):
    shell.write("package/__init__.py", "1 / 0\n")
    shell.write("package/__main__.py", "")
    got = shell.run("-m", "package")
    assert "ZeroDivisionError" in got.stderr
    assert "importlib" not in got.stderr
    assert got.returncode == 3


def test_debug_variable_keeps_our_frames(shell):
    shell.write("script.py", "1 / 0")
    assert "_program.py" in shell.run("script.py", env={"SAMEDEVICE_DEBUG": "1"}).stderr


def test_spawned_processes_find_main(shell):
    shell.write(
        "script.py",
        "import multiprocessing\nclass Box:\n    def __init__(self, n): self.n = n\ndef double(box): return "
        "Box(box.n * 2)\nif __name__ == '__main__':\n    with multiprocessing.get_context('spawn').Pool(1) "
        "as pool:\n        print(pool.apply(double, (Box(21),)).n)\n",
    )
    for program in (["script.py"], ["-m", "script"]):
        got = shell.run(*program)
        assert (got.stdout, got.returncode) == ("42\n", 0), got.stderr


def test_hash_seed_is_fixed_unless_chosen(shell):
    shell.write("script.py", "print(hash('cuda:0'))")
    assert shell.run("script.py").stdout == shell.run("script.py").stdout == shell.python("script.py").stdout
    chosen = {"PYTHONHASHSEED": "7"}
    assert shell.run("script.py", env=chosen).stdout == shell.python("script.py", env=chosen).stdout
    assert shell.run("script.py", env=chosen).stdout != shell.run("script.py").stdout


def test_exit_handlers_and_threads_still_see_the_machine(shell):
    shell.write(
        "script.py",
        "import atexit, threading, time, stand_in\nfrom concurrent.futures import ThreadPoolExecutor\ndef "
        "late(): time.sleep(0.3); print('thread', stand_in.Engine.current.inside)\natexit.register(lambda: "
        "print('exit', "
        "stand_in.Engine.current.inside))\nthreading.Thread(target=late).start()\nThreadPoolExecutor(1).submit(late)\n",
    )
    got = shell.run("script.py")
    assert got.stdout == "thread True\nthread True\nexit True\n"
    assert got.returncode == 0


def test_forked_child_reports_nothing(shell):
    shell.write(
        "script.py",
        "import os, sys\nif os.fork() == 0:\n    "
        "sys.exit(7)\nprint(os.waitstatus_to_exitcode(os.wait()[1]))\n",
    )
    got = shell.run("--json", "out.json", "script.py")
    assert (got.stdout, got.returncode) == ("7\n", 0)
    assert got.stderr.count("samedevice:") == 1


def test_terminated_worker_dies_of_the_signal(shell):
    shell.write(
        "script.py",
        "import multiprocessing, time\np = multiprocessing.get_context('fork').Process(target=time.sleep, "
        "args=(60,))\np.start(); time.sleep(0.2); p.terminate(); p.join(); print(p.exitcode)\n",
    )
    got = shell.run("script.py")
    assert (got.stdout, got.returncode) == ("-15\n", 0)
    assert "Traceback" not in got.stderr


def test_what_the_script_holds_is_let_go_at_the_end(shell):
    """What was imported before the script is left out of collections, what it makes itself is not."""
    shell.write(
        "script.py",
        "import gc\n"
        "class Held:\n"
        "    def __init__(self, name):\n"
        "        self.own, self.name, self.file = self, name, open(name, 'w')\n"
        "        self.file.write('whole')\n"
        "    def __del__(self): print('gone', self.name)\n"
        "dropped = Held('dropped.txt')\n"
        "del dropped\n"
        "gc.collect()\n"
        "kept = Held('kept.txt')\n",
    )
    plain, run = shell.python("script.py"), shell.run("script.py")
    assert run.stdout == plain.stdout == "gone dropped.txt\ngone kept.txt\n"
    assert (shell.folder / "kept.txt").read_text() == "whole"
