"""Run a real model's script on eight GPUs that are not there: first as it was written, then repaired.

    make demo        # or python examples/demo.py, where this checkout is installed with transformers

Qwen2.5-VL-7B is loaded at its full size from its published configuration: 15 GiB of weights by name, shape
and type, with no bytes on the disk and no download. Exit status 0: the bug was found in the first script, and
nothing in the second.
"""

import subprocess
import sys
import time

from evidence.bugs import situations
from evidence.environments import example_models, overlays
from evidence.places import ROOT

MODEL = "qwen2.5-vl-7b-instruct"
NOTHING_FOUND, FOUND = 0, 1


def run(script, environment, folder):
    """Run one example as a person would and return the exit status of `samedevice run`."""
    command = ["run", "--machine", situations.MACHINE, f"examples/{script}", "--model", str(folder)]
    print(f"\n$ samedevice {' '.join(command)}", flush=True)
    begin = time.monotonic()
    status = subprocess.run(
        [sys.executable, "-m", "samedevice", *command],
        cwd=ROOT,
        env={**environment, "HF_HUB_DISABLE_PROGRESS_BARS": "1", "TQDM_DISABLE": "1"},
        check=False,
    ).returncode
    print(f"(exit status {status}, {time.monotonic() - begin:.0f} s)")
    return status


def main():
    try:
        overlays.ensure_all([situations.pins_of("installed")])  # transformers' processors want torchvision
    except overlays.OverlayError as error:
        print(error, file=sys.stderr)
        return 2
    environment = situations.environment_of("installed")
    folder = example_models.make(MODEL)

    print("A user's script, unchanged. Its device map was written for another machine:")
    broken = run("s2_describe.py", environment, folder)
    print("\nThe same script with the rotary table placed beside the embedding:")
    repaired = run("s2_describe_repaired.py", environment, folder)

    if (broken, repaired) != (FOUND, NOTHING_FOUND):
        print(
            f"\ndemo: expected exit status {FOUND} and then {NOTHING_FOUND}, got {broken} and {repaired}",
            file=sys.stderr,
        )
        return 1
    print("\nStatus 1 means that something was found, status 0 that nothing was: both as the demo expects.")
    print("Next: samedevice run --machine 8xA100-80G your_script.py")
    return 0


if __name__ == "__main__":
    sys.exit(main())
