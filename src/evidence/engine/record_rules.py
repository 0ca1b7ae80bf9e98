"""Records what a real CUDA GPU does when one argument of an operator is on the CPU, to hold the rules to it.

Time: a minute for `--kinds meta` on an H200 with 8 workers; `--minutes` stops it, and another run goes on.
Needs: an NVIDIA GPU (none with `--self-check`), torch 2.11 or newer, numpy, expecttest.

    python -m evidence record-rules RECORDING.json.gz [--only TEXT] [--minutes N] [--jobs N]
    python -m evidence record-rules RECORDING.json.gz --self-check      # on a virtual machine
    python -m evidence record-rules RECORDING.json.gz --kinds meta      # the argument on the meta device
    python -m evidence record-rules RECORDING.json.gz --kinds module optimizer statement
    python -m evidence record-rules RECORDING.json.gz --pack            # of the journals that there are

Every entry of torch's operator database is run, with each tensor argument (members of lists too) on the CPU
and the rest on the GPU, as it is and as a 0-dim tensor, and with `out=` on the CPU; `meta`, `gradient` and
`gradient-meta` have the argument, or the gradient that `backward` is given, on the CPU or the meta device.
`module`, `module-meta` and `optimizer` do the same with each tensor of torch's modules (weights and inputs)
and of what its optimizers keep. `statement` runs `statements.txt`: indexing, lists, NumPy, copies,
generators, data loaders, distributions and gradients with tensors of both devices. Each case runs in a
worker process with a synchronization after it; when a kernel faults or takes the process down, the case is
recorded as such and a new worker goes on with the next one. `--jobs` workers share the operators. Each writes
a journal beside RECORDING, and a later run goes on from all of them. What is recorded by the time it is
stopped (`--minutes`, Ctrl-C, SIGTERM) is in RECORDING, too; of a run that was killed, `--pack` makes it.
"""

from __future__ import annotations

import argparse
import contextlib
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from packaging.version import Version

from evidence.commands import command_parser
from evidence.engine import recorders
from evidence.engine.recordings import ASKED, KINDS, Journals


def main(arguments: Sequence[str] | None = None) -> int:
    """Drive workers until every case has its outcome; the exit status."""
    parser = command_parser(__name__, __doc__)
    parser.add_argument("recording", type=Path)
    parser.add_argument("--only", default="", help="operators whose name holds this text")
    parser.add_argument(
        "--minutes", type=float, default=float("inf"), help="stop after that time; run again to go on"
    )
    parser.add_argument("--jobs", type=int, default=1, help="workers at once (1)")
    parser.add_argument("--self-check", action="store_true", help="record a virtual machine instead of a GPU")
    parser.add_argument(
        "--kinds",
        nargs="+",
        choices=(*KINDS, *ASKED),
        default=KINDS,
        help="kinds of cases; by default the first four",
    )
    parser.add_argument("--pack", action="store_true", help="record nothing, pack what the journals hold")
    parser.add_argument("--worker", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--turns", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--again", default="", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    recording = options.recording.resolve()
    journals = Journals(recording, options.self_check)
    if options.worker is not None:
        from evidence.engine import recording_worker

        return recording_worker.work(
            journals, options.worker, options.turns, options.only, options.again or None, options.kinds
        )
    if options.jobs < 1:
        parser.error("--jobs must be 1 or more")
    if not options.pack:
        deadline = time.monotonic() + options.minutes * 60
        if not options.self_check:
            refuse_without_gpu()
        recording.parent.mkdir(parents=True, exist_ok=True)
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        with contextlib.suppress(KeyboardInterrupt):
            if recorders.record(journals, options.only, options.kinds, options.jobs, deadline):
                journals.pack()
                journals.remove()
                return 0
    journals.pack()  # what there is so far
    written = journals.read()
    print(f"{'packed' if options.pack else 'stopped'}; run again to go on from {len(written.results)} cases")
    return 4


def refuse_without_gpu() -> None:
    """End with a sentence where recording would record nothing."""
    import torch

    if not torch.cuda.is_available():
        sys.exit("no CUDA GPU here: use --self-check to try the recorder on a virtual machine")
    if Version(torch.__version__).release < (2, 11):
        sys.exit(f"torch {torch.__version__} is too old, 2.11 or newer is needed")
