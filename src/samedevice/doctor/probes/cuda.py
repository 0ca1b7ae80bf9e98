"""What torch says of its CUDA part, asked in a child process."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

from samedevice.doctor.facts import CudaFacts, Facts, Unread
from samedevice.doctor.host import Host
from samedevice.messages import Phrase

CHILD = str(Path(__file__).with_name("torch_child.py"))
_SECONDS = 90.0
"""A cold import of torch from a slow disk takes tens of seconds."""
_LAST = 600
EXTENSIONS = {
    "torchvision": "torchvision",
    "torchaudio": "torchaudio",
    "flash-attn": "flash_attn_2_cuda",
    "xformers": "xformers._C",
    "triton": "triton",
}
"""Packages that are built for one torch, and the module that shows it when it is imported."""


def read_cuda(host: Host, facts: Facts) -> Facts:
    """Asked only where torch has a CUDA part and a GPU may be there: it takes seconds."""
    if facts.torch is None or not facts.torch.cuda or not (facts.gpus or facts.boards):
        return facts
    modules = [module for name, module in EXTENSIONS.items() if facts.package(name) is not None]
    answer = host.run([host.python, CHILD, *modules], _SECONDS)
    line = answer.output.strip().rpartition("\n")[2]
    try:
        document = json.loads(line)
    except ValueError:
        said = " ".join(answer.errors.split())[-_LAST:]
        if answer.failure is not None or not said:
            why = answer.failure or Phrase("doctor.torch-silent", status=answer.status or 0)
            return replace(facts, unread=(*facts.unread, Unread("cuda", why)))
        return replace(facts, cuda=CudaFacts(trouble=said))
    return replace(
        facts,
        cuda=CudaFacts(
            architectures=tuple(document["architectures"]),
            count=document["count"],
            warnings=tuple(document["warnings"]),
            trouble=document["trouble"],
            broken=document["broken"],
            access={(one, other): can for one, other, can in document["access"]},
        ),
    )
