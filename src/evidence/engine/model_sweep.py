"""Every model type of transformers gives the CPU's values on one virtual GPU and split over two.

Time: some five seconds for each of 386 model types.
Needs: transformers, accelerate.

    python -m evidence model-sweep --json sweep.json llama qwen3 whisper

The models are tiny, with random weights. For each, in a process of its own: one forward pass (and `generate`,
where the model can), on the CPU, on one virtual GPU, split over two, and the gradients of one step on one
GPU. On one GPU nothing may be found and all values must be equal; on two, findings are listed and the values
must be equal all the same.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from evidence.commands import command_parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the models and print a line for each."""
    parser = command_parser(__name__, __doc__)
    parser.add_argument("model_type", nargs="*", help="as transformers names them; all without any")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write everything that was seen")
    parser.add_argument("--quiet", action="store_true", help="the table without notes")
    options = parser.parse_args(arguments)
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    from evidence.engine import model_runs

    return model_runs.run(options)
