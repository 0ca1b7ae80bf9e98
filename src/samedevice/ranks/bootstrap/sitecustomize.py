"""Runs when a Python starts below a virtual machine.

Its folder is on PYTHONPATH and comes before everything else.

Must guarantee: a process that never imports torch pays for one JSON text; the `sitecustomize` that would have
run otherwise still runs; whatever goes wrong here, the process starts. Only the standard library is imported,
and no name of ours stays behind.
"""

import os
import sys


def _follow_the_other() -> None:
    """Run the sitecustomize that this one hides."""
    from importlib.machinery import PathFinder
    from importlib.util import module_from_spec

    here = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120  # pathlib costs a start-up 10 ms
    others = [entry for entry in sys.path if os.path.abspath(entry or ".") != here]  # noqa: PTH100  # the same
    spec = PathFinder.find_spec("sitecustomize", others)
    if spec is not None and spec.loader is not None:
        module = module_from_spec(spec)
        sys.modules["sitecustomize"] = module
        spec.loader.exec_module(module)


def _enter_with_torch() -> None:
    """Enter the machine when torch has been imported."""
    told = os.environ.get("SAMEDEVICE_MACHINE_OF_PARENT")
    if not told:
        return
    import json
    from importlib.util import module_from_spec, spec_from_file_location

    inherited = json.loads(told)
    if inherited["assumed_ranks"] and os.environ.get("RANK", "0") != "0":
        os._exit(0)  # one rank stands for all
    file = os.path.join(inherited["package"], "ranks", "_child.py")  # noqa: PTH118  # the same
    spec = spec_from_file_location("_samedevice_child", file)
    if spec is not None and spec.loader is not None:
        module = module_from_spec(spec)
        spec.loader.exec_module(module)
        module.wait_for_torch(inherited)


try:
    _enter_with_torch()
except Exception as error:
    sys.stderr.write(
        f"samedevice: this process runs without the virtual machine of its parent ({type(error).__name__}: "
        f"{error})\n"
    )
_follow_the_other()
