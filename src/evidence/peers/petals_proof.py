"""Real Petals serves a model on a virtual machine, where `sd.guard_cache` repairs its caches.

Time: about three minutes.
Needs: Python 3.11 on Linux (x86-64); the first time PyPI, some 200 MB of old releases.

    python -m evidence petals-proof
    python -m evidence petals-proof --logs DIR      # keeps what each process printed
    python -m evidence petals-proof --checkout DIR  # the throughput test of two commits of a clone of Petals:
                                                    # issue 575, and repaired

Petals 2.2.0.post1 runs beside the installed torch, from overlays of its own companions: its server, its
handlers and its peer-to-peer daemon as processes on 127.0.0.1, the blocks on `cuda:0` of a virtual machine,
the client on the CPU. The model is a tiny random Llama, made on the spot. What a run must show is compared
with what it did; the exit status is 1 if a line is wrong.

Petals pins hivemind 1.1.10.post2, which PyPI has as a source that fetches its daemon from GitHub when it is
built. The overlay is 1.1.9, whose wheel carries the daemon; of their Python, `dht.py` differs in one base
class (a process that is forked, the default here anyway) and `runtime.py` in a method that was split off.
What else is adapted is in `examples/petals_swarm.py`.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from evidence.commands import command_parser
from evidence.environments import overlays
from evidence.places import ROOT, SOURCES

SCRIPT = ROOT / "examples" / "petals_swarm.py"
PINS = overlays.parse_pins(
    """
    petals==2.2.0.post1 hivemind==1.1.9 tensor-parallel==1.0.23 transformers==4.34.1 tokenizers==0.14.1
    huggingface-hub==0.17.3
    accelerate==0.27.2 peft==0.5.0 bitsandbytes==0.41.1 pydantic==1.10.27 protobuf==3.20.3 numpy==1.26.4
    scipy==1.17.1
    safetensors==0.8.0 multiaddr==0.0.9 varint==1.0.2 base58==2.1.1 netaddr==1.3.0 six==1.17.0
    pymultihash==0.8.2 dijkstar==2.6.0
    cpufeature==0.2.1 humanfriendly==10.0 async-timeout==5.0.1 uvloop==0.23.0 msgpack==1.2.4
    prefetch-generator==1.0.3
    configargparse==1.9.0 sortedcontainers==2.4.0 sentencepiece==0.2.3 cryptography==50.0.2 cffi==2.1.1
    pycparser==3.12
    typer==0.20.1 click==8.5.1 speedtest-cli==2.1.3
    requests==2.32.5 urllib3==2.8.0 certifi==2026.10.18 idna==3.20 charset-normalizer==3.5.2
    """.split()
)
LATER_PINS = {
    **PINS,
    **overlays.parse_pins(["transformers==4.38.2", "tokenizers==0.15.2", "huggingface-hub==0.36.2"]),
}
"""What Petals wanted in April 2024; Petals itself comes from a checkout and hides the release."""
BAD, GOOD = "d6f4f80f3f524dd7d961f409ed3d5b0c8bc957e9", "30f522d1a0646593842733037f1b278ea0f1fe7a"
_ADDRESS = re.compile(r"Running a server on \['([^']+)'")
_START, _ANSWER, _END = 240, 240, 120
"""Seconds that a server gets to start, a client to answer, a server to end; far more than it takes."""


@dataclass(slots=True)
class Result:
    """What one server and its clients did."""

    name: str
    answers: list[Any]
    """Each client's tokens, or the last line that it printed."""
    seconds: list[float]
    findings: list[dict[str, Any]] = field(default_factory=list)
    log: str = ""


def variables(pins: dict[str, str] = PINS, *sources: Path) -> dict[str, str]:
    """The environment of every process; `sources` come before the overlays."""
    paths = os.pathsep.join(map(str, [*sources, *overlays.ensure(pins), SOURCES]))
    return {**os.environ, "PYTHONPATH": paths, "HF_HUB_OFFLINE": "1", "PYTHONHASHSEED": "0"}


def make_model(folder: Path, environment: dict[str, str]) -> list[int]:
    """A tiny Llama in `folder`; its own tokens on the plain CPU."""
    command = [sys.executable, str(SCRIPT), "model", str(folder)]
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    tokens: list[int] = json.loads(done.stdout.splitlines()[-1])
    return tokens


@contextlib.contextmanager
def server(
    folder: Path, report: Path, log: Path, environment: dict[str, str], run: str, serve: str
) -> Iterator[tuple[int, str]]:
    """A server on a virtual machine: its process and its address."""
    samedevice = [
        sys.executable,
        "-m",
        "samedevice",
        "run",
        "--machine",
        "1x24GB",
        "--json",
        str(report),
        *run.split(),
    ]
    with log.open("w") as output:
        command = [*samedevice, str(SCRIPT), "serve", str(folder), *serve.split()]
        process = subprocess.Popen(
            command, env=environment, stdout=output, stderr=subprocess.STDOUT, start_new_session=True
        )
    with _ended(process):
        yield process.pid, _address(process, log)
        process.send_signal(signal.SIGINT)
        try:
            process.wait(_END)
        except subprocess.TimeoutExpired:
            tail = log.read_text(errors="replace")[-2000:]
            raise RuntimeError(f"the server did not end in {_END} s after SIGINT:\n{tail}") from None


def _address(process: subprocess.Popen[bytes], log: Path) -> str:
    deadline = time.monotonic() + _START
    while time.monotonic() < deadline and process.poll() is None:
        text = log.read_text(errors="replace")
        found = _ADDRESS.search(text)
        if found and "] Started" in text:
            return found[1]
        time.sleep(0.2)
    raise RuntimeError(f"the server did not start:\n{log.read_text(errors='replace')[-2000:]}")


def ask(folder: Path, address: str, log: Path, environment: dict[str, str]) -> tuple[Any, float]:
    """What a client got, and the seconds it took with its start."""
    began = time.monotonic()
    with log.open("w") as output:
        command = [sys.executable, str(SCRIPT), "ask", str(folder), address]
        process = subprocess.Popen(
            command, env=environment, stdout=output, stderr=subprocess.STDOUT, start_new_session=True
        )
    with _ended(process):
        try:
            process.wait(_ANSWER)
        except subprocess.TimeoutExpired:
            return f"no answer in {_ANSWER} s", time.monotonic() - began
    last = (log.read_text(errors="replace").strip().splitlines() or ["nothing"])[-1]
    answer = (
        json.loads(last)
        if process.returncode == 0
        else re.sub(r"^.*Failed to call handler .* at \w+: ", "", last)
    )
    return answer, time.monotonic() - began


@contextlib.contextmanager
def _ended(process: subprocess.Popen[bytes]) -> Iterator[None]:
    """Afterwards nothing is left of a process and of its group: handlers and the peer-to-peer daemon."""
    try:
        yield
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def let_children_be_interrupted() -> None:
    """Undo what a shell does to its background jobs: they and all programs below them ignore SIGINT."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def observe(
    name: str, run: str, serve: str, unguard: bool = False, *, work: Path, environment: dict[str, str]
) -> Result:
    """One server, one client; a second one after the guard was removed if `unguard`."""
    report, log = work / f"{name}.json", work / f"{name}.log"
    answers: list[Any] = []
    seconds: list[float] = []
    with server(work / "model", report, log, environment, run, serve) as (process, address):
        for removed in (False, True) if unguard else (False,):
            if removed:
                os.kill(process, signal.SIGUSR1)
                time.sleep(0.5)
            answer, took = ask(
                work / "model", address, work / f"{name}-client-{len(answers)}.log", environment
            )
            answers.append(answer)
            seconds.append(took)
    findings = json.loads(report.read_text())["findings"]
    return Result(name, answers, seconds, findings, log.read_text(errors="replace"))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the proof and print its table."""
    parser = command_parser(__name__, __doc__)
    parser.add_argument(
        "--logs", type=Path, metavar="DIR", help="keep what each process printed, and the findings as JSON"
    )
    parser.add_argument(
        "--checkout",
        type=Path,
        metavar="DIR",
        help="a clone of Petals: run two of its commits instead of the release",
    )
    options = parser.parse_args(arguments)
    let_children_be_interrupted()
    work = options.logs or Path(tempfile.mkdtemp(prefix="petals-"))
    work.mkdir(parents=True, exist_ok=True)
    try:
        checks = Checks()
        if options.checkout is None:
            _prove(work, checks)
        else:
            _prove_commits(options.checkout, work, checks)
        return min(checks.wrong, 1)
    finally:
        if options.logs is None:
            shutil.rmtree(work, ignore_errors=True)


class Checks:
    """Prints what was seen, and counts what is not as it must be."""

    def __init__(self) -> None:
        self.wrong = 0

    def __call__(self, text: str, good: bool) -> None:
        self.wrong += not good
        print(f"  {'ok   ' if good else 'WRONG'} {text}", flush=True)


def _prove(work: Path, check: Checks) -> None:
    environment = variables()
    tokens = make_model(work / "model", environment)
    print(f"the model on the CPU: {tokens}\n")

    def run(name: str, options: str, serve: str, unguard: bool = False) -> Result:
        result = observe(name, options, serve, unguard, work=work, environment=environment)
        print(f"{name}: {', '.join(f'{seconds:.1f} s' for seconds in result.seconds)}")
        return result

    healthy = run("healthy", "", "")
    check(f"tokens {healthy.answers[0]}", healthy.answers[0] == tokens)
    check(f"{len(healthy.findings)} findings", not healthy.findings)

    broken = run("broken", "--fail-fast", "--cache cpu")
    check(f"the client gets: {broken.answers[0]}", is_situation(broken.answers[0]))
    for finding in broken.findings:
        check(told(finding), is_cache(finding))
    check(f"{len(broken.findings)} finding", len(broken.findings) == 1)

    recorded = run("recorded", "", "--cache cpu")
    check(f"tokens {recorded.answers[0]}", recorded.answers[0] == tokens)
    for finding in recorded.findings:
        check(told(finding), is_cache(finding))
    check(f"{len(recorded.findings)} findings", len(recorded.findings) == 2)

    guarded = run("guarded", "--fail-fast", "--cache cpu --guard move", unguard=True)
    check(f"tokens {guarded.answers[0]}", guarded.answers[0] == tokens)
    logged = re.findall(r"layer_past\[\d\] of \w+ is on cpu while the block is on cuda:0.*", guarded.log)
    check(f"logged {len(logged)} times: {logged[0] if logged else None}", len(logged) == 8)
    check(f"after remove(): {guarded.answers[1]}", is_situation(guarded.answers[1]))

    refused = run("refused", "--fail-fast", "--cache cpu --guard raise")
    named = "layer_past[0], the cache of WrappedLlamaBlock, is on cpu while the block is on cuda:0"
    check(f"the client gets: {refused.answers[0]}", named in str(refused.answers[0]))
    check(f"{len(refused.findings)} findings", not refused.findings)


def _prove_commits(checkout: Path, work: Path, check: Checks) -> None:
    make_model(work / "model", variables())
    for commit, expected in ((BAD, 2), (GOOD, 0)):
        source, report = work / commit, work / f"{commit}.json"
        source.mkdir(exist_ok=True)
        archive = subprocess.run(
            ["git", "-C", str(checkout), "archive", commit, "src"], stdout=subprocess.PIPE, check=True
        )
        subprocess.run(["tar", "-x", "-C", str(source)], input=archive.stdout, check=True)
        command = [sys.executable, "-m", "samedevice", "run", "--machine", "1x24GB", "--json", str(report)]
        command += [str(SCRIPT), "measure", str(work / "model")]
        with (work / f"{commit}.log").open("w") as log:
            subprocess.run(
                command,
                env=variables(LATER_PINS, source / "src"),
                stdout=log,
                stderr=subprocess.STDOUT,
                check=False,
            )
        document = json.loads(report.read_text())
        print(f"Petals at {commit[:7]}: {document['status']}")
        for finding in document["findings"]:
            check(told(finding), is_cache(finding, made="misc.py"))
        check(
            f"{len(document['findings'])} findings",
            document["status"] == "completed" and len(document["findings"]) == expected,
        )


def is_situation(answer: object) -> bool:
    """Whether a client was told the error of S5."""
    return bool(
        re.match(r"Expected all tensors to be on the same device.*cpu.*wrapper_CUDA_cat\)", str(answer))
    )


def is_cache(finding: dict[str, Any], made: str = "tensor_descr.py") -> bool:
    """Whether a finding blames the cache, at the statement of the block, and knows the file that made it."""
    stale = finding["operands"][0]
    return (
        finding["cause"] == "cache-or-beam-state-on-wrong-device"
        and finding["at"]["file"].endswith("petals/models/llama/block.py")
        and (stale["device"], stale["local"][:14], Path(stale["made"]["file"]).name)
        == ("cpu", "past_key_value", made)
    )


def told(finding: dict[str, Any]) -> str:
    """A finding in one line."""
    stale, at = finding["operands"][0], finding["at"]
    made = f"{Path(stale['made']['file']).name}:{stale['made']['line']}"
    cause = f"{finding['cause']} ({finding['confidence']})"
    where = f"{Path(at['file']).name}:{at['line']} {at['code']}"
    return (
        f"{where}: {stale['local']} on {stale['device']}, made at {made}; {cause}, {finding['count']} times"
    )
