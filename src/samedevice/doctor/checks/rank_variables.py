"""Variables of a launcher that stayed in a shell."""

from __future__ import annotations

from collections.abc import Iterator

from samedevice.doctor.check import Check, Fault
from samedevice.doctor.facts import Facts
from samedevice.doctor.visible import seen_gpus
from samedevice.messages import Phrase

_NAMES = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")


def _look(facts: Facts) -> Iterator[Fault]:
    variables = facts.variables
    if "TORCHELASTIC_RUN_ID" in variables:  # this very process was launched
        return
    left = [name for name in _NAMES if name in variables]
    rank, size = variables.get("LOCAL_RANK", ""), variables.get("WORLD_SIZE", "")
    seen = len(seen_gpus(facts))
    listed = " ".join(f"{name}={variables[name]}" for name in left)
    if rank.isdigit() and facts.gpus and int(rank) >= seen:
        reason = Phrase("checks.rank-variables.beyond", rank=rank, seen=seen, listed=listed)
    elif size.isdigit() and int(size) > 1 and "RANK" in variables and not _of_cluster(facts):
        reason = Phrase("checks.rank-variables.waits", size=size, listed=listed)
    else:
        return
    yield Fault(reason, Phrase("checks.rank-variables.unset", names=" ".join(left)), "likely")


def _of_cluster(facts: Facts) -> bool:
    """Whether a scheduler starts the processes: Slurm's tasks, the pods of a training job."""
    return any(name in facts.variables for name in ("SLURM_JOB_ID", "KUBERNETES_SERVICE_HOST", "PET_NNODES"))


CHECK = Check(
    code="SD322",
    name="rank-variables",
    title={"en": "variables of a launcher are left in this shell", "zh": "当前 shell 里残留着启动器的变量"},
    reads=("variables",),
    sources=("torch/distributed/rendezvous.py, _env_rendezvous_handler", "accelerate/state.py, PartialState"),
    look=_look,
    sentences={
        "beyond": {
            "en": "LOCAL_RANK is {rank}, and {seen} GPUs are visible: cuda:LOCAL_RANK is an invalid "
            "device ordinal ({listed})",
            "zh": "LOCAL_RANK 是 {rank}，而可见的 GPU 只有 {seen} 块：cuda:LOCAL_RANK 会报 invalid "
            "device ordinal（{listed}）",
        },
        "waits": {
            "en": "WORLD_SIZE is {size} without a launcher: libraries that read it wait for processes "
            "that nobody "
            "starts ({listed})",
            "zh": "没有启动器却设了 WORLD_SIZE={size}：读取它的库会一直等不存在的进程（{listed}）",
        },
        "unset": {"en": "unset {names}", "zh": "unset {names}"},
    },
)
