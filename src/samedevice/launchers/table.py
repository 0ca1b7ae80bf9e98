"""The launchers. A new one is a row."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from samedevice.launchers.launcher import Job, Launcher, Options, Tasks


def _of_torch(job: Job, local_rank: int) -> dict[str, str]:
    """`torch.distributed`'s variables."""
    return {
        "LOCAL_RANK": str(local_rank),
        "RANK": str((job.nodes - 1) * job.processes + local_rank),
        "WORLD_SIZE": str(job.processes * job.nodes),
        "LOCAL_WORLD_SIZE": str(job.processes),
        "MASTER_ADDR": "localhost",
        "MASTER_PORT": "29500",
    }


def _of_accelerate(job: Job, local_rank: int) -> dict[str, str]:
    found = _of_torch(job, local_rank) if job.processes * job.nodes > 1 else {}
    if job.distributed_type == "DEEPSPEED":
        found["ACCELERATE_USE_DEEPSPEED"] = "true"
        found["ACCELERATE_DEEPSPEED_ZERO_STAGE"] = str(job.zero_stage or 2)
    if job.distributed_type == "FSDP":
        found["ACCELERATE_USE_FSDP"] = "true"
    return found


def _of_lightning(job: Job, local_rank: int) -> dict[str, str]:
    return _of_torch(job, local_rank) if local_rank > 0 else {}  # rank 0 is the process that Python started


def _by_the_old_module(words: Sequence[str]) -> bool:
    return "torch.distributed.launch" in words and not {"--use_env", "--use-env"} & set(words)


def _torchrun(processes: int, options: Sequence[str]) -> list[str]:
    meets = [] if any("rdzv" in option or "master" in option for option in options) else ["--standalone"]
    return ["torch.distributed.run", f"--nproc-per-node={processes}", *meets]


def _accelerate(processes: int, options: Sequence[str]) -> list[str]:
    ways = ("--multi_gpu", "--use_fsdp", "--use_deepspeed", "--config_file", "--cpu", "--use_megatron")
    chosen = any(option.startswith(ways) for option in options)
    head = ["accelerate.commands.launch", "--num_processes", str(processes)]
    return [*head, *(["--multi_gpu"] if processes > 1 and not chosen else []), *_defaults(options)]


def _defaults(options: Sequence[str]) -> list[str]:
    """What `accelerate launch` would otherwise read from this user's own configuration, or warn about."""
    if any(option.startswith("--config_file") for option in options):
        return []
    wanted = {"--num_machines": "1", "--mixed_precision": "no", "--dynamo_backend": "no"}
    return [
        word
        for name, value in wanted.items()
        if not any(option.startswith(name) for option in options)
        for word in (name, value)
    ]


def _deepspeed(processes: int, options: Sequence[str]) -> list[str]:
    return ["deepspeed.launcher.runner", "--num_gpus", str(processes)]


PYTHON = Launcher("python", source="the script itself", starts=False, in_front=False)
TORCHRUN = Launcher(
    "torchrun",
    source="torch/distributed/run.py, torch/distributed/launch.py",
    commands=(("torchrun",),),
    modules=(("torch.distributed.run",), ("torch.distributed.launch",)),
    options=Options(
        flags=("m", "module", "no_python", "run_path", "standalone", "use_env", "virtual_local_rank"),
        processes=("nproc_per_node",),
        nodes=("nnodes",),
        module=("m", "module"),
        any_program=("no_python",),
    ),
    distributed_type="MULTI_GPU",
    variables=_of_torch,
    passes_local_rank=_by_the_old_module,
    package="torch",
    start=_torchrun,
)
ACCELERATE = Launcher(
    "accelerate",
    source="accelerate/commands/launch.py, accelerate/utils/launch.py",
    commands=(("accelerate", "launch"), ("accelerate-launch",)),
    modules=(("accelerate.commands.launch",), ("accelerate", "launch")),
    options=Options(
        flags=(
            *("m", "module", "no_python", "q", "quiet", "debug", "cpu", "use_cpu", "tpu", "tpu_cluster"),
            *("no_tpu_cluster", "tpu_use_sudo", "multi_gpu", "use_deepspeed", "use_fsdp", "use_megatron_lm"),
            *("use_parallelism_config", "same_network", "downcast_bf16", "enable_cpu_affinity"),
            *("dynamo_use_dynamic", "dynamo_use_fullgraph", "dynamo_use_regional_compilation"),
            *("fp8_use_autocast_during_eval", "use_xpu", "use_mps_device", "use_env"),
        ),
        all_processes=("num_processes",),
        nodes=("num_machines",),
        gpus=("gpu_ids",),
        configuration="config_file",
        module=("m", "module"),
        any_program=("no_python",),
        types=(("multi_gpu", "MULTI_GPU"), ("use_fsdp", "FSDP"), ("use_deepspeed", "DEEPSPEED")),
    ),
    each_gpu=True,
    variables=_of_accelerate,
    package="accelerate",
    start=_accelerate,
)
DEEPSPEED = Launcher(
    "deepspeed",
    source="deepspeed/launcher/runner.py, deepspeed/launcher/launch.py",
    commands=(("deepspeed",),),
    modules=(("deepspeed.launcher.runner",),),
    options=Options(
        flags=(
            *("module", "no_python", "no_local_rank", "no_ssh", "no_ssh_check", "force_multi", "save_pid"),
            *("enable_each_rank_log", "bind_cores_to_rank", "elastic_training"),
        ),
        processes=("num_gpus",),
        nodes=("num_nodes",),
        gpus=("include", "i"),
        module=("module",),
        any_program=("no_python",),
    ),
    each_gpu=True,
    distributed_type="DEEPSPEED",
    variables=_of_torch,
    names_gpus=True,
    passes_local_rank=lambda words: True,
    package="deepspeed",
    start=_deepspeed,
)
LIGHTNING = Launcher(
    "lightning",
    source="lightning/pytorch/strategies/launchers/subprocess_script.py",
    variables=_of_lightning,
    in_front=False,
)
_MPI = Tasks(
    per_node=("--npernode", "-npernode", "-ppn", "--ntasks-per-node"),
    total=("-n", "-np", "--np", "--ntasks"),
    nodes=("--nnodes", "-N", "--nodes"),
    gpus_each=("--gpus-per-task",),
)
LAUNCHERS = (
    PYTHON,
    TORCHRUN,
    ACCELERATE,
    DEEPSPEED,
    LIGHTNING,
    Launcher(
        "srun",
        source="srun(1)",
        commands=(("srun",),),
        tasks=Tasks(
            per_node=("--ntasks-per-node",),
            total=("--ntasks", "-n"),
            nodes=("--nodes", "-N"),
            gpus_each=("--gpus-per-task",),
        ),
        joins=False,
    ),
    *(
        Launcher(name, source="mpirun(1)", commands=((name,),), tasks=_MPI, joins=False)
        for name in ("mpirun", "mpiexec", "orterun")
    ),
)
STARTED = tuple(launcher.name for launcher in LAUNCHERS if launcher.start is not None)
"""Names of those that `samedevice run` starts."""
_BY_NAME = {launcher.name: launcher for launcher in LAUNCHERS}


def launcher_named(name: str) -> Launcher:
    """The launcher of a name; a KeyError for any other."""
    return _BY_NAME[name]


def launcher_at(words: Sequence[str], *, module: bool = False) -> tuple[Launcher, int] | None:
    """The launcher that words begin with, and the number of words that name it.

    The words are a command line, or what follows `python -m`. Programs that start tasks of any command are
    none: see `starter_of_tasks`.
    """
    given = (*words[:1], *words[1:]) if module or not words else (Path(words[0]).name, *words[1:])
    for launcher in LAUNCHERS:
        for spelled in (launcher.modules if module else launcher.commands) if launcher.tasks is None else ():
            if tuple(given[: len(spelled)]) == spelled:
                return launcher, len(spelled)
    return None


def starter_of_tasks(words: Sequence[str]) -> tuple[Launcher, int] | None:
    """The first program among words that starts several tasks of a command, and where it stands."""
    for position, word in enumerate(words):
        launcher = _BY_NAME.get(Path(word).name)
        if launcher is not None and launcher.tasks is not None:
            return launcher, position
    return None
