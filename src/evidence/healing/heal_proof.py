"""Healed programs give the numbers of the same programs on one device, bit for bit, or are refused.

Time: a minute and a half for 1,000 programs.
Needs: nothing more.

    python -m evidence heal-proof --programs 10000 --seed 1 [--jobs N] [--minutes N]
    python -m evidence heal-proof --programs 500 --seed 1 --start 2000     # programs 2000 to 2499
    python -m evidence heal-proof --show 17 --seed 1     # its source, where it ran, how it ended
    python -m evidence heal-proof --twin                 # on two devices that are real for torch; needs g++
    python -m evidence heal-proof --gpu                  # on an NVIDIA GPU and its host
    python -m evidence heal-proof --gpu --self-check     # a virtual GPU stands in

Each program is drawn at random and makes five calls of a model. It runs on one virtual GPU, and healed with
its memory and its modules on two GPUs and the host, in one of three ways: `sd.heal(model)`,
`with sd.heal():`, both. What is compared after each call is everything that the program holds: values,
shapes, strides and gradients of results, arguments, attributes, buffers and parameters, which of them are one
object, and which share their memory. A program that raises on one device must raise healed, too. `unhealed`
are those whose numbers differ on the same places without any healing, where nothing was refused;
`ambiguous` are those whose runs on one device differ among each other, compiled and not, or on the device and
on the host. With `--twin` there is no virtual machine, and autograd has a queue and a thread for each device,
as it has for GPUs. With `--gpu` nothing is virtual, and what stood on the second GPU stands on the host, too;
a GPU rounds otherwise than its host, so that there numbers that differ by some 1e-4 of their size, with all
else equal, are `close`. Exit status 1 when one program is DIFFERENT, 4 when it was stopped before its end.
"""

from __future__ import annotations

import contextlib
import logging
import re
import signal
import time
import warnings
from collections import Counter
from collections.abc import Sequence

from evidence.commands import command_parser

WORDS = ("equal", "close", "refused", "DIFFERENT", "unhealed", "ambiguous", "crashed")
_TELL = 20.0


def main(arguments: Sequence[str] | None = None) -> int:
    """Run programs and print the table."""
    parser = command_parser(__name__, __doc__)
    parser.add_argument("--programs", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--start", type=int, default=0, help="the number of the first program")
    parser.add_argument("--show", type=int, metavar="N", help="show one program")
    parser.add_argument("--jobs", type=int, default=1, help="processes at once (1)")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="stop after that time")
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--twin", action="store_true", help="on two devices of host memory, real for torch")
    where.add_argument("--gpu", action="store_true", help="on a real GPU and its host")
    parser.add_argument("--self-check", action="store_true", help="--gpu with a virtual GPU")
    options = parser.parse_args(arguments)
    if options.self_check and not options.gpu:
        parser.error("--self-check goes with --gpu")
    if options.jobs < 1 or options.programs < 1:
        parser.error("--jobs and --programs must be 1 or more")
    deadline = time.monotonic() + options.minutes * 60
    from evidence.environments import twin_device
    from evidence.healing.program_forks import Setting, outcomes

    logging.getLogger("samedevice").setLevel(logging.ERROR)
    warnings.simplefilter("ignore")
    chosen = (
        range(options.show, options.show + 1)
        if options.show is not None
        else range(options.start, options.start + options.programs)
    )
    if options.twin:
        twin_device.enter()
    setting = Setting(
        "self-check"
        if options.self_check
        else "gpu"
        if options.gpu
        else "twin"
        if options.twin
        else "virtual"
    )
    counts: Counter[str] = Counter()
    reasons: Counter[str] = Counter()
    begin = told = time.monotonic()
    for ending in (signal.SIGINT, signal.SIGTERM):
        signal.signal(ending, signal.default_int_handler)
    with contextlib.suppress(KeyboardInterrupt):  # what was counted so far is told
        for number, (word, why) in outcomes(options.seed, chosen, setting, options.jobs, deadline):
            counts[word] += 1
            if word == "refused":
                reasons[re.sub(r"v?\d+|\[.*?\]", "N", why)[:120]] += 1
            if word not in ("equal", "close", "refused"):
                print(f"program {number}: {word}: {why}", flush=True)
            if time.monotonic() - told > _TELL:
                told = time.monotonic()
                print(f"{counts.total()} programs so far: {_in_words(counts)}", flush=True)
    if options.show is not None:
        program = setting.program(options.seed, options.show)
        print(
            f"{program.source}\n{program.way} on {' '.join(program.places)}: {dict(counts)} {dict(reasons)}"
        )
    print(
        f"{counts.total()} programs of seed {options.seed} from {chosen[0]}, {time.monotonic() - begin:.0f} "
        f"s: {_in_words(counts)}"
    )
    for reason, count in reasons.most_common():
        print(f"{count:6} refused: {reason}")
    return 1 if counts["DIFFERENT"] else 4 if counts.total() < len(chosen) else 0


def _in_words(counts: Counter[str]) -> str:
    return ", ".join(f"{word} {counts[word]}" for word in WORDS)
