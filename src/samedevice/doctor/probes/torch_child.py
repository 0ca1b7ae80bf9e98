"""What torch says of its CUDA part, as one JSON document in the last line of standard output.

Run as a script, with the modules that are to be imported as arguments. No GPU is written to.
"""

from __future__ import annotations

import importlib
import json
import sys
import warnings
from typing import Any


def main(modules: list[str]) -> None:
    """Print the document."""
    document: dict[str, Any] = {
        "architectures": [],
        "count": None,
        "warnings": [],
        "trouble": "",
        "broken": {},
        "access": [],
    }
    try:
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            _ask(document)
        document["warnings"] = [str(each.message) for each in said if "CUDA" in str(each.message)]
    except Exception as error:  # whatever a broken installation raises is the answer
        document["trouble"] = f"{type(error).__name__}: {error}"
    for module in modules if not document["trouble"] else ():
        try:
            importlib.import_module(module)
        except Exception as error:  # as above
            document["broken"][module] = f"{type(error).__name__}: {error}"
    print(f"\n{json.dumps(document)}")


def _ask(document: dict[str, Any]) -> None:
    torch = importlib.import_module("torch")  # here alone: this file is a process of its own

    flags = getattr(torch._C, "_cuda_getArchFlags", str)  # a build without CUDA does not have it
    document["architectures"] = (flags() or "").split()
    count = document["count"] = torch.cuda.device_count()
    torch.cuda.is_available()  # warns of a driver that does not fit
    if count:
        torch.cuda.current_device()
    document["access"] = [
        [one, other, torch.cuda.can_device_access_peer(one, other)]
        for one in range(count)
        for other in range(count)
        if one != other
    ]


if __name__ == "__main__":
    main(sys.argv[1:])
    sys.stdout.flush()
