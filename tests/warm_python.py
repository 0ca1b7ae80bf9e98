"""A Python that has imported torch already: each program is a fork of it, and starts in 0.1 s instead of 3.

    with warm_python(folder) as python:
        subprocess.run([python, "-m", "samedevice", "run", "train.py"])

`python` is a small program that hands its arguments, folder, environment and standard streams to the server,
which forks; it passes signals on and ends with the same status. What differs from a fresh start: modules
are there that the program did not import, and its number is not that of the small program. With options or
variables of Python's own a fresh one starts, and so does what the program starts itself, unless the
environment names the small program as `WARM_CHILDREN`. What a start itself does is tested with
`sys.executable`.
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import gc
import importlib
import json
import multiprocessing
import os
import runpy
import selectors
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

TORCH = (
    "torch",
    "samedevice.runtime",
    "samedevice.diagnosis._judge",
    "samedevice.report.terminal",
    "samedevice.cli._app",
    "samedevice.cli.commands.run",
    "samedevice.cli._run",
    "typer._adapters",
)
PRELOADED = (
    *TORCH,
    "transformers.modeling_utils",
    "accelerate",
    "pytest",
    "_pytest.terminal",
    "_pytest.assertion.rewrite",
)
"""Where they are installed."""
CHILDREN = "WARM_CHILDREN"
"""The variable that names the small program where a program's own Pythons are to be warm, too."""
_IGNORED = ("PYTHONHASHSEED", "PYTHONUNBUFFERED", "PYTHONDONTWRITEBYTECODE")
"""Variables that make no difference here: the seed of hashes is always 0."""
_CLIENT = """#!{executable} -IS
import os, sys
words = sys.argv[1:]
while words[:1] in (["-u"], ["-B"]):
    words.pop(0)
options = not words or words[0][0] == "-" and words[0][:2] not in ("-c", "-m")
settings = {{name: value for name, value in os.environ.items() if name.startswith("PYTHON")}}
for name in ("PYTHONPATH", "PYTHONIOENCODING", *{ignored!r}):
    settings.pop(name, None)
if options or settings:
    os.execv({executable!r}, [{executable!r}, *sys.argv[1:]])
import json, signal, socket
server = socket.socket(socket.AF_UNIX)
server.connect({address!r})
open_files = []
for number in map(int, os.listdir("/proc/self/fd")):
    if number != server.fileno() and os.path.exists(f"/proc/self/fd/{{number}}"):
        open_files.append(number)
asked = json.dumps([sys.argv[1:], os.getcwd(), dict(os.environ), open_files]).encode()
socket.send_fds(server, [len(asked).to_bytes(4, "big")], open_files)
server.sendall(asked)
child = int.from_bytes(server.recv(4), "big")
def handed_on(number, frame):
    try:
        os.kill(child, number)
    except ProcessLookupError:
        pass
for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
    signal.signal(number, handed_on)
status = int.from_bytes(server.recv(4), "big", signed=True)
if status < 0:
    if status != -signal.SIGKILL:
        signal.signal(-status, signal.SIG_DFL)
    os.kill(os.getpid(), -status)
os._exit(status)
"""


@contextlib.contextmanager
def warm_python(folder: Path, modules: Sequence[str] = PRELOADED) -> Iterator[str]:
    """The path of the small program, in this folder; the server ends with the block."""
    address = folder / "server"
    client = folder / "python"
    client.write_text(_CLIENT.format(executable=sys.executable, address=str(address), ignored=_IGNORED))
    client.chmod(0o755)
    environment = {name: value for name, value in os.environ.items() if name not in _IGNORED}
    environment["PYTHONHASHSEED"] = "0"
    server = subprocess.Popen(
        [sys.executable, __file__, str(address), *modules],
        env=environment,
        stdin=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        while not address.exists():
            if server.poll() is not None:
                raise RuntimeError(f"the server of warm Pythons ended with status {server.returncode}")
            time.sleep(0.05)
        yield str(client)
    finally:
        server.kill()
        server.wait()


def _serve(address: str, modules: Sequence[str]):
    """Fork for each connection; returns in the children, with what they are to run."""
    for name in modules:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    with contextlib.suppress(ImportError):
        rules = importlib.import_module("samedevice.device_rules")
        rules.only_on_cpu("aten.add.Tensor")  # reads the declarations of all operators
    gc.collect()
    gc.freeze()
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(address + ".new")
    listener.listen()
    Path(address + ".new").rename(address)
    reader, writer = socket.socketpair()
    writer.setblocking(False)
    signal.set_wakeup_fd(writer.fileno())
    signal.signal(signal.SIGCHLD, lambda *_: None)
    waiting = selectors.DefaultSelector()
    waiting.register(listener, selectors.EVENT_READ)
    waiting.register(reader, selectors.EVENT_READ)
    running: dict[int, socket.socket] = {}
    while True:
        for key, _ in waiting.select():
            if key.fileobj is listener:
                connection, _ = listener.accept()
                asked, streams = _asked(connection)
                child = os.fork()
                if not child:
                    signal.set_wakeup_fd(-1)
                    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                    for each in (listener, reader, writer, connection, *running.values()):
                        each.close()
                    waiting.close()
                    return asked, streams
                for stream in streams:
                    os.close(stream)
                connection.sendall(child.to_bytes(4, "big"))
                running[child] = connection
                waiting.register(connection, selectors.EVENT_READ, child)
            elif key.fileobj is reader:
                reader.recv(4096)
                _reap(running, waiting)
            else:  # the small program was killed
                with contextlib.suppress(ProcessLookupError):
                    os.kill(key.data, signal.SIGKILL)
                waiting.unregister(key.fileobj)


def _asked(connection: socket.socket):
    head, streams, *_ = socket.recv_fds(connection, 4, 250)
    length, text = int.from_bytes(head, "big"), b""
    while len(text) < length:
        text += connection.recv(length - len(text))
    return json.loads(text), streams


def _reap(running: dict[int, socket.socket], waiting: selectors.BaseSelector) -> None:
    while running:
        try:
            child, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if not child:
            return
        connection = running.pop(child)
        with contextlib.suppress(KeyError):
            waiting.unregister(connection)
        with contextlib.suppress(OSError):
            connection.sendall(os.waitstatus_to_exitcode(status).to_bytes(4, "big", signed=True))
        connection.close()


def _become(asked, streams) -> list[str]:
    """Take on the folder, environment, streams and path of the program; returns its arguments."""
    arguments, folder, environment, numbers = asked
    beyond = max([*numbers, *streams]) + 1
    moved = [fcntl.fcntl(stream, fcntl.F_DUPFD_CLOEXEC, beyond) for stream in streams]
    for stream in streams:
        os.close(stream)
    for number, stream in zip(numbers, moved, strict=True):
        os.dup2(stream, number)
        os.close(stream)
    os.chdir(folder)
    before = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    os.environ.clear()
    os.environ.update({**environment, "PYTHONHASHSEED": "0"})
    added = [each for each in environment.get("PYTHONPATH", "").split(os.pathsep) if each]
    sys.path[:] = [*added, *(each for each in sys.path if each not in before and each not in added)]
    if CHILDREN in environment:
        sys.executable = environment[CHILDREN]
        multiprocessing.set_executable(sys.executable)
    sys.orig_argv = [sys.executable, *arguments]
    if "OMP_NUM_THREADS" in environment and "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(int(environment["OMP_NUM_THREADS"]))
    if encoding := environment.get("PYTHONIOENCODING"):
        sys.stdin = os.fdopen(0, encoding=encoding, closefd=False)
        sys.stdout = os.fdopen(1, "w", encoding=encoding, closefd=False)
        sys.stderr = os.fdopen(2, "w", 1, encoding, "backslashreplace", closefd=False)
    if any(Path(each, "sitecustomize.py").is_file() for each in added):
        sys.modules.pop("sitecustomize", None)
        importlib.import_module("sitecustomize")
    return arguments


def _run(arguments: list[str]) -> None:
    match arguments:
        case ["-B", *rest]:
            _run(rest)
        case ["-u", *rest]:
            sys.stdout.reconfigure(line_buffering=True)
            _run(rest)
        case [joined, *rest] if joined.startswith("-m") and len(joined) > 2:
            _run(["-m", joined[2:], *rest])
        case ["-m", module, *rest]:
            sys.argv = [module, *rest]
            sys.path.insert(0, str(Path.cwd()))
            runpy.run_module(module, run_name="__main__", alter_sys=True)
        case ["-c", code, *rest]:
            sys.argv = ["-c", *rest]
            sys.path.insert(0, "")
            exec(compile(code, "<string>", "exec"), {"__name__": "__main__"})
        case [script, *rest]:
            sys.argv = [script, *rest]
            sys.path.insert(0, str(Path(script).absolute().parent))
            runpy.run_path(script, run_name="__main__")


def _status(arguments: list[str]) -> int:
    try:
        _run(arguments)
    except SystemExit as end:
        if end.code is None or isinstance(end.code, int):
            return (end.code or 0) & 0xFF
        print(end.code, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return -signal.SIGINT
    except BaseException as error:
        trace = error.__traceback__
        while trace is not None and trace.tb_frame.f_code.co_filename in (__file__, runpy.__file__):
            trace = trace.tb_next
        sys.last_type, sys.last_value, sys.last_traceback = type(error), error, trace
        sys.excepthook(type(error), error, trace)
        return 1
    return 0


def _end(status: int) -> None:
    """What Python does at its end, but for the taking down of every module: that takes a second."""
    threading._shutdown()
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    if status < 0:
        signal.signal(-status, signal.SIG_DFL)
        os.kill(os.getpid(), -status)
    os._exit(status)


if __name__ == "__main__":
    sys.path.pop(0)
    _end(_status(_become(*_serve(sys.argv[1], sys.argv[2:]))))
