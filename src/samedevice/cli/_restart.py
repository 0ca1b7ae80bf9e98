"""What Python reads only when it starts: variables of the environment and its own options."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence


def start_with(environment: Mapping[str, str], options: Sequence[str], *, fixed_seed: bool) -> None:
    """See that this process runs with variables and options of Python's that a command names.

    Where something is missing, Python starts once more, before torch is imported, so it costs one bare start
    (about 0.1 s). The same process goes on: standard input, descriptors and arguments are untouched.

    With `fixed_seed`, PYTHONHASHSEED is 0 unless somebody chose one. accelerate 1.15 picks a model's main
    device with `list(set(devices))[0]`; with devices given as strings that depends on the hash seed, so the
    same script would have other findings from run to run.
    """
    wanted = dict(environment)
    if fixed_seed and "PYTHONHASHSEED" not in os.environ and not sys.flags.ignore_environment:
        wanted.setdefault("PYTHONHASHSEED", "0")
    missing = {name: value for name, value in wanted.items() if os.environ.get(name) != value}
    behind = tuple(sys.orig_argv[1 : 1 + len(options)])
    if not missing and behind == tuple(options):
        return
    if os.name != "posix" or not sys.executable:
        os.environ.update({name: value for name, value in missing.items() if name in environment})
        return
    own = () if behind == tuple(options) else tuple(options)
    os.execve(sys.executable, [sys.executable, *own, *sys.orig_argv[1:]], {**os.environ, **missing})
