"""Healed programs give the numbers of the same programs on one device, bit for bit, or are refused.

Time: a minute and a half for 1,000 programs.
Needs: nothing more.

    python -m evidence heal-proof --programs 10000 --seed 1
    python -m evidence heal-proof --programs 500 --seed 1 --start 2000     # programs 2000 to 2499
    python -m evidence heal-proof --show 17 --seed 1     # its source, where it ran, how it ended
    python -m evidence heal-proof --twin                 # on two devices that are real for torch; needs g++

Each program is drawn at random and makes five calls of a model. It runs on one virtual GPU, and healed with
its memory and its modules on two GPUs and the host, in one of three ways: `sd.heal(model)`,
`with sd.heal():`, both. What is compared after each call is everything that the program holds: values,
shapes, strides and gradients of results, arguments, attributes, buffers and parameters, which of them are one
object, and which share their memory. A program that raises on one device must raise healed, too. `unhealed`
are those whose numbers differ on the same places without any healing, where nothing was refused;
`ambiguous` are those whose runs on one device differ among each other, compiled and not, or on the twin and
on the host. With `--twin` there is no virtual machine, and autograd has a queue and a thread for each device,
as it has for GPUs. Exit status 1 when one program is DIFFERENT.
"""

from __future__ import annotations

from collections.abc import Sequence

from evidence.commands import command_parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run programs and print the table."""
    parser = command_parser(__name__, __doc__)
    parser.add_argument("--programs", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--start", type=int, default=0, help="the number of the first program")
    parser.add_argument("--show", type=int, metavar="N", help="show one program")
    parser.add_argument("--twin", action="store_true", help="on two devices of host memory, real for torch")
    options = parser.parse_args(arguments)
    from evidence.healing import healed_programs

    return healed_programs.run(options)
