"""Children of a script: spawned, forked, started with another view of the GPUs. Each finds the machine, and
one bug.
"""

import multiprocessing
import os
import subprocess
import sys

BUG = (
    "import torch; assert torch.cuda.device_count() == {count}; torch.ones(2, device='cuda') + torch.ones(2)"
)


def child(count):
    exec(BUG.format(count=count))


if __name__ == "__main__":
    view = {**os.environ, "CUDA_VISIBLE_DEVICES": "1"}
    subprocess.run([sys.executable, "-c", BUG.format(count=1)], env=view, check=True)
    subprocess.run([sys.executable, "-I", "-c", "pass"], check=True)
    for method in sys.argv[1:]:
        process = multiprocessing.get_context(method).Process(target=child, args=(2,))
        process.start()
        process.join()
        assert process.exitcode == 0, method
