"""What a launch is: which program, in how many processes, on which GPUs, with which configuration files.

Read from a command line as torchrun, accelerate and DeepSpeed read theirs (`torch.distributed.run`,
`accelerate.commands.launch`, `deepspeed.launcher.runner`); options that do not bear on placement are passed
over.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

from samedevice.messages import Language
from samedevice.preflight._settings import Settings, read_settings
from samedevice.preflight._shell import UNTOLD, Command
from samedevice.preflight._tools import TOOLS, Tool
from samedevice.preflight._values import Origin, Text

LAUNCHERS = ("python", "torchrun", "accelerate", "deepspeed")
_PYTHON = re.compile(r"(?:.*/)?python[\d.]*")
_STARTERS = ("srun", "mpirun", "mpiexec", "orterun")
"""What starts several tasks of one command."""
_TAKES_VARIABLE = ("env", "-e", "--env", "-x", "")
_NO_WRAPPERS = frozenset(
    "echo printf pip pip3 cat cp mv rm ls cd mkdir which type grep sed awk touch chmod git wget curl tar "
    "kill pkill ps alias trap test [ [["
    " apt apt-get tee head tail sleep wait set shift return exit module pushd popd true false find ln".split()
)
"""Commands that start none of the programs they name."""
_TRAINING = frozenset(
    "output_dir model_name_or_path base_model model_id model_path model_type per_device_train_batch_size "
    "per_device_eval_batch_size micro_batch_size gradient_accumulation_steps learning_rate "
    "num_train_epochs num_epochs max_steps warmup_steps warmup_ratio lr_scheduler_type optim bf16 fp16 "
    "tf32 deepspeed fsdp fsdp_config device_map load_in_4bit load_in_8bit quantization_bit "
    "gradient_checkpointing ddp_find_unused_parameters ddp_backend finetuning_type lora_r lora_rank "
    "lora_target adapter sequence_len cutoff_len max_seq_length max_length dataset_name train_file "
    "do_train train_type save_steps logging_steps".split()
)
"""Names of training arguments; one of them makes a document more than a heap of settings."""
_FLAGS = frozenset(
    "standalone no_python run_path multi_gpu cpu tpu use_deepspeed use_fsdp use_megatron_lm quiet debug m "
    "module use_env use_cpu same_network dynamo_use_dynamic dynamo_use_fullgraph no_local_rank "
    "enable_each_rank_log bind_cores_to_rank elastic_training downcast_bf16".split()
)
"""Options of the launchers that take no value."""


@dataclass(frozen=True, slots=True)
class Launch:
    """One launch, as it was asked for."""

    launcher: str
    processes: int
    """Per machine."""
    visible: tuple[int, ...]
    """GPUs that the processes see, as the machine numbers them; all where `hidden` says that it cannot be
    told.
    """
    script: Path | None = None
    arguments: tuple[Text, ...] = ()
    nodes: int = 1
    distributed_type: str = "NO"
    """In accelerate's words: NO, MULTI_GPU, DEEPSPEED, FSDP, ..."""
    accelerate: Settings | None = None
    deepspeed: Settings | None = None
    """The configuration that DeepSpeed itself gets."""
    zero_stage: int | None = None
    fsdp_version: int | None = None
    training: Settings | None = None
    """A file of training arguments."""
    environment: dict[str, str] = field(default_factory=dict)
    origin: Origin | None = None
    """The command, where there is one."""
    words: tuple[Text, ...] = ()
    module: bool = False
    tool: Tool | None = None
    cluster: bool = False
    """The environment that a cluster gave makes each process part of a group (`RANK`, `WORLD_SIZE`)."""
    unexported: dict[str, tuple[int, str]] = field(default_factory=dict)
    missing: str = ""
    """A configuration that the command names and that is not there."""
    hidden: bool = False
    """Whether CUDA_VISIBLE_DEVICES is set to something that only a run would tell."""
    asked: int | None = None
    """What the command itself says of the number of processes."""
    unread: tuple[str, ...] = ()
    """What else the target starts that could not be read, as `file:line words`."""

    @property
    def group(self) -> int:
        """All processes, those of other machines included; at least 2 in a cluster's group."""
        return max(self.processes * self.nodes, 2 if self.cluster else 1)

    @property
    def distributed(self) -> bool:
        """Whether several processes train together."""
        return self.group > 1

    @property
    def passes_local_rank(self) -> bool:
        """Whether the launcher adds `--local_rank` to the script's arguments: DeepSpeed's, and the old one of
        torch.
        """
        old = "torch.distributed.launch" in self.words and not {"--use_env", "--use-env"} & set(self.words)
        return self.launcher == "deepspeed" or old

    def rank_environment(self, rank: int) -> dict[str, str]:
        """What process `rank` of the last machine finds in `os.environ`, beside the rest."""
        found = dict(self.environment)
        if len(self.visible) and "CUDA_VISIBLE_DEVICES" not in found and self.launcher == "deepspeed":
            found["CUDA_VISIBLE_DEVICES"] = ",".join(map(str, self.visible))
        started = self.launcher == "lightning" and rank > 0  # rank 0 is the process that Python started
        if (
            self.launcher in ("torchrun", "deepspeed")
            or started
            or (self.launcher == "accelerate" and self.processes * self.nodes > 1)
        ):
            found |= {
                "LOCAL_RANK": str(rank),
                "RANK": str((self.nodes - 1) * self.processes + rank),
                "WORLD_SIZE": str(self.processes * self.nodes),
                "LOCAL_WORLD_SIZE": str(self.processes),
                "MASTER_ADDR": "localhost",
                "MASTER_PORT": "29500",
            }
        if self.launcher == "accelerate" and self.distributed_type == "DEEPSPEED":
            found["ACCELERATE_USE_DEEPSPEED"] = "true"
            found["ACCELERATE_DEEPSPEED_ZERO_STAGE"] = str(self.zero_stage or 2)
        if self.launcher == "accelerate" and self.distributed_type == "FSDP":
            found["ACCELERATE_USE_FSDP"] = "true"
        return found


def launch_of_command(command: Command, folder: Path, gpus: int, language: Language) -> Launch | None:
    """The launch that a command starts; None when it starts nothing of ours."""
    start = start_of(command.words)
    if start is None:
        return None
    before, words = command.words[:start], list(command.words[start:])
    environment = dict(command.environment)
    for previous, word in pairwise(("", *before)):
        if previous in _TAKES_VARIABLE and (given := re.fullmatch(r"([A-Za-z_]\w*)=(.*)", word)):
            environment[given[1]] = given[2]
    shown = environment.get("CUDA_VISIBLE_DEVICES")
    visible = visible_devices(shown, gpus)
    if shown is None and command.slurm.get("gpus", "").isdigit():
        visible = visible[: int(command.slurm["gpus"])]
    origin = words[0].origin if words else None
    base = Launch(
        "python",
        1,
        visible,
        environment=environment,
        origin=origin,
        words=command.words,
        unexported=command.unexported,
    )
    base = replace(base, hidden=UNTOLD in (shown or ""))
    if _clustered(command):
        base = replace(base, cluster=True)
    launch = _started(base, words, folder, language)
    return _in_tasks(launch, before, command.slurm) if launch is not None else None


def start_of(words: Sequence[str]) -> int | None:
    """Where in a command the program stands that starts Python: first, or behind what only wraps it (`srun`,
    `uv run`, `timeout 60`).
    """
    for position, word in enumerate(words):
        name, behind = Path(word).name, words[position + 1 : position + 2]
        if (
            name in ("torchrun", "deepspeed")
            or (name == "accelerate" and behind == ("launch",))
            or (name in TOOLS and behind)
        ):
            return position
        if (
            _PYTHON.fullmatch(word)
            and behind
            and (not position or behind[0].startswith("-") or behind[0].endswith(".py"))
        ):
            return position
        if (
            word.endswith(".py")
            and not word.startswith("-")
            and (not position or "run" in words[:position] or name == word[2:])
        ):
            return position
        if not position and name in _NO_WRAPPERS:
            return None
    return None


def _started(base: Launch, words: list[Text], folder: Path, language: Language) -> Launch | None:
    """The launch that a command starts whose first word is the program."""
    name = Path(words[0]).name
    if _PYTHON.fullmatch(words[0]):
        rest = words[1:]
        while rest and rest[0].startswith("-") and rest[0] not in ("-m", "-c", "-"):
            rest = rest[2:] if rest[0] in ("-W", "-X") else rest[1:]
        if rest[:1] == ["-m"] and len(rest) > 1:
            if rest[1] in ("torch.distributed.run", "torch.distributed.launch"):
                return _torchrun(base, rest[2:], folder, language)
            if rest[1] in ("accelerate.commands.launch", "accelerate"):
                return _accelerate(base, rest[3 if rest[1] == "accelerate" else 2 :], folder, language)
            return _program(base, rest[1:], folder, language, module=True)
        if rest[:1] in (["-c"], ["-"]) or not rest:
            return None
        return _program(base, rest, folder, language)
    if name == "torchrun":
        return _torchrun(base, words[1:], folder, language)
    if name == "accelerate" and words[1:2] == ["launch"]:
        return _accelerate(base, words[2:], folder, language)
    if name == "deepspeed":
        return _deepspeed(base, words[1:], folder, language)
    if name in TOOLS:
        return _tool(base, TOOLS[name], words[1:], folder, language)
    return _program(base, words, folder, language) if name.endswith(".py") else None


def _in_tasks(launch: Launch, before: Sequence[Text], slurm: Mapping[str, str]) -> Launch:
    """The launch in as many tasks as `srun` or `mpirun` makes of it."""
    starters = [Path(word).name for word in before]
    starter = next((name for name in starters if name in _STARTERS), None)
    if starter is None or launch.launcher != "python":
        return launch
    given = list(before[starters.index(starter) + 1 :])
    per_node = _given(given, ("--ntasks-per-node", "--npernode", "-ppn")) or _digits(
        slurm.get("SLURM_NTASKS_PER_NODE")
    )
    total = _given(given, ("--ntasks", "-n", "-np", "--np")) or _digits(slurm.get("SLURM_NTASKS"))
    nodes = _given(given, ("--nodes", "-N", "--nnodes")) or _digits(slurm.get("SLURM_NNODES")) or 1
    tasks = per_node or (max(1, total // nodes) if total else 1)
    visible = launch.visible
    each = _given(given, ("--gpus-per-task",)) or _digits(slurm.get("SLURM_GPUS_PER_TASK"))
    if each:  # each task sees its own GPUs, by numbers that begin at 0
        visible = visible[: each * tasks]
    if tasks * nodes < 2:
        return launch
    return replace(launch, launcher=starter, processes=tasks, nodes=nodes, asked=tasks, visible=visible)


def _given(words: Sequence[str], spellings: Sequence[str]) -> int | None:
    for position, word in enumerate(words):
        head, _, value = word.partition("=")
        if head in spellings:
            return _digits(value or next(iter(words[position + 1 : position + 2]), ""))
        short = next(
            (each for each in spellings if len(each) == 2 and word.startswith(each) and word[2:].isdigit()),
            None,
        )
        if short is not None:
            return int(word[2:])
    return None


def _digits(text: str | None) -> int | None:
    return int(text) if text and text.isdigit() and int(text) > 0 else None


def launch_of_script(
    script: Path | None,
    launcher: str,
    processes: int | None,
    arguments: Sequence[str],
    gpus: int,
    environment: Mapping[str, str],
    configuration: Path | None,
    language: Language,
) -> Launch:
    """The launch of a Python file by a launcher that the caller names."""
    words = tuple(Text(word, Origin(Path("-"), 1, kind="argument")) for word in arguments)
    kept = {name: value for name, value in environment.items() if name == "CUDA_VISIBLE_DEVICES"}
    visible = visible_devices(kept.get("CUDA_VISIBLE_DEVICES"), gpus)
    launch = Launch(launcher, 1, visible, script, words, environment=kept, asked=processes)
    if launcher == "python":
        return with_arguments(replace(launch, processes=1), Path.cwd(), language)
    launch = replace(launch, processes=processes or len(visible) or 1)
    if configuration is not None:
        settings = read_settings(configuration, language)
        launch = with_configuration(launch, settings, processes, language)
        launch = replace(launch, distributed_type="DEEPSPEED") if is_deepspeed(settings) else launch
    elif launcher == "accelerate":
        launch = replace(launch, distributed_type="MULTI_GPU" if launch.processes > 1 else "NO")
    return with_arguments(launch, Path.cwd(), language)


def visible_devices(setting: str | None, gpus: int) -> tuple[int, ...]:
    """The GPUs that CUDA_VISIBLE_DEVICES leaves; a list ends at the first entry that is none."""
    if setting is None or UNTOLD in setting:
        return tuple(range(gpus))
    found: list[int] = []
    for entry in setting.split(","):
        if not entry.strip().isdigit() or int(entry) >= gpus:
            if entry.strip().upper().startswith(("GPU-", "MIG-")):
                found.append(len(found))
                continue
            break
        found.append(int(entry))
    return tuple(found)


def with_configuration(launch: Launch, settings: Settings, asked: int | None, language: Language) -> Launch:
    """The launch with accelerate's configuration file read into it, or DeepSpeed's."""
    if is_deepspeed(settings):
        stage = settings.get("zero_optimization.stage", 0)
        return replace(launch, deepspeed=settings, zero_stage=stage if isinstance(stage, int) else None)
    kind = str(settings.get("distributed_type") or "NO").upper().replace("'", "")
    count = settings.get("num_processes")
    nodes = settings.get("num_machines") or 1
    total = (
        asked if asked is not None else count if isinstance(count, int) and count > 0 else launch.processes
    )
    nodes = nodes if isinstance(nodes, int) and nodes > 0 else 1
    visible = launch.visible
    ids = settings.get("gpu_ids")
    if isinstance(ids, (str, int)) and not isinstance(ids, bool) and str(ids) != "all":
        wanted = [int(part) for part in str(ids).split(",") if part.strip().isdigit()]
        visible = tuple(index for index in wanted if index in visible)
    launch = replace(
        launch,
        processes=max(1, total // nodes) if total >= nodes else total,
        nodes=nodes,
        accelerate=settings,
        distributed_type=kind,
        visible=visible,
    )
    if kind == "DEEPSPEED":
        launch = _with_deepspeed(launch, settings, language)
    if kind == "FSDP":
        version = settings.get("fsdp_config.fsdp_version", 1)
        launch = replace(launch, fsdp_version=version if isinstance(version, int) else 1)
    return launch


def _with_deepspeed(launch: Launch, settings: Settings, language: Language) -> Launch:
    inline = settings.get("deepspeed_config") or {}
    if not isinstance(inline, dict):
        return launch
    stage = inline.get("zero_stage", 2)
    if isinstance(file := inline.get("deepspeed_config_file"), str):
        path = _beside(Path.cwd(), file) or _beside(settings.file.parent, file)
        if path is not None:
            found = read_settings(path, language)
            stage = found.get("zero_optimization.stage", 0)
            launch = replace(launch, deepspeed=found)
        else:
            stage = None
    return replace(launch, zero_stage=stage if isinstance(stage, int) else None)


def is_deepspeed(settings: Settings) -> bool:
    """Whether a document is DeepSpeed's own configuration."""
    return bool(
        {"zero_optimization", "train_micro_batch_size_per_gpu", "train_batch_size"} & settings.data.keys()
    ) and ("output_dir" not in settings.data and "distributed_type" not in settings.data)


def is_training(settings: Settings) -> bool:
    """Whether a document holds training arguments: names that transformers, TRL, LLaMA-Factory, axolotl or
    ms-swift read.
    """
    return bool(_TRAINING & settings.data.keys())


def is_accelerate(settings: Settings) -> bool:
    """Whether a document is accelerate's configuration."""
    return bool({"distributed_type", "compute_environment", "num_machines"} & settings.data.keys())


def with_arguments(launch: Launch, folder: Path, language: Language) -> Launch:
    """The launch with what the script's own arguments say of DeepSpeed, FSDP and further files."""
    words = list(launch.arguments)
    if len(words) >= 1 and Path(words[0]).suffix in (".yaml", ".yml", ".json") and launch.training is None:
        path = _beside(folder, words[0])
        if path is not None:
            settings = read_settings(path, language)
            launch = with_training(launch, settings, folder, language)
    for name in ("deepspeed", "deepspeed_config"):
        value = option(words, name)
        if isinstance(value, str) and launch.deepspeed is None:
            launch = _deepspeed_from(launch, value, folder, language)
    fsdp = option(words, "fsdp")
    if isinstance(fsdp, str) and fsdp and fsdp.lower() not in ("false", "none"):
        launch = replace(launch, distributed_type="FSDP", fsdp_version=launch.fsdp_version or 1)
    return launch


def with_training(launch: Launch, settings: Settings, folder: Path, language: Language) -> Launch:
    """The launch with a file of training arguments."""
    launch = replace(launch, training=settings)
    value = settings.get("deepspeed")
    if isinstance(value, str):
        launch = _deepspeed_from(launch, value, folder, language, settings.file.parent)
    elif isinstance(value, dict):
        stage = settings.get("deepspeed.zero_optimization.stage")
        launch = replace(
            launch, zero_stage=stage if isinstance(stage, int) else 0, distributed_type="DEEPSPEED"
        )
    fsdp = settings.get("fsdp")
    if fsdp:
        version = settings.get("fsdp_version", settings.get("fsdp_config.fsdp_version", 1))
        launch = replace(
            launch, distributed_type="FSDP", fsdp_version=version if isinstance(version, int) else 1
        )
    return launch


def _deepspeed_from(
    launch: Launch, value: str, folder: Path, language: Language, beside: Path | None = None
) -> Launch:
    named = re.fullmatch(
        r"(?:default-)?zero([0-3])(?:[_-]offload)?", value
    )  # ms-swift's own names for its files
    if named:
        return replace(launch, zero_stage=int(named[1]), distributed_type="DEEPSPEED")
    path = _beside(folder, value) or (_beside(beside, value) if beside is not None else None)
    if path is None:
        return replace(launch, distributed_type="DEEPSPEED")
    found = read_settings(path, language)
    stage = found.get("zero_optimization.stage", 0)
    return replace(
        launch,
        deepspeed=found,
        zero_stage=stage if isinstance(stage, int) else None,
        distributed_type="DEEPSPEED",
    )


def option(words: Sequence[str], name: str) -> Any:
    """The value of `--name value` or `--name=value`; None when it is not there, True when it has no value."""
    spellings = {f"--{name}", f"--{name.replace('_', '-')}"}
    for index, word in enumerate(words):
        head, has_value, value = word.partition("=")
        if head in spellings:
            if has_value:
                return Text(value, getattr(word, "origin", None))
            following = words[index + 1] if index + 1 < len(words) else None
            return True if following is None or following.startswith("--") else following
    return None


def _clustered(command: Command) -> bool:
    """The script asks the environment for ranks that it never sets: a cluster gives them, to the program as
    well.
    """
    return any(name in command.used and name not in command.unexported for name in ("RANK", "WORLD_SIZE"))


def without_option(words: Sequence[str], name: str) -> tuple[str, ...]:
    """Arguments without `--name value`."""
    kept: list[str] = []
    skip = False
    for index, word in enumerate(words):
        if skip:
            skip = False
            continue
        head, has_value, _ = word.partition("=")
        if head in (f"--{name}", f"--{name.replace('_', '-')}"):
            skip = not has_value and index + 1 < len(words) and not words[index + 1].startswith("-")
            continue
        kept.append(str(word))
    return tuple(kept)


def _beside(folder: Path, name: str) -> Path | None:
    if UNTOLD in name:
        return None
    path = Path(name) if Path(name).is_absolute() else folder / name
    return path if path.is_file() else None


def _options(words: list[Text]) -> tuple[dict[str, Any], list[Text]]:
    """A launcher's own options, and what stands behind them."""
    found: dict[str, Any] = {}
    while words and words[0].startswith("-"):
        head, has_value, value = words[0].partition("=")
        name = head.lstrip("-").replace("-", "_")
        if has_value:
            found[name], words = Text(value, words[0].origin), words[1:]
        elif name in _FLAGS or len(words) < 2:
            found[name], words = True, words[1:]
        else:
            found[name], words = words[1], words[2:]
    return found, words


def _number(value: Any, gpus: int) -> int | None:
    if isinstance(value, str):
        if value in ("gpu", "auto"):
            return gpus
        return int(value) if value.isdigit() else None
    return None


def _torchrun(base: Launch, words: list[Text], folder: Path, language: Language) -> Launch | None:
    options, rest = _options(words)
    asked = _number(options.get("nproc_per_node"), len(base.visible))
    known = "nproc_per_node" in options
    processes = asked if asked is not None else (max(1, len(base.visible)) if known else 1)
    nodes = _number(str(options.get("nnodes", "1")).rpartition(":")[2], 1) or 1
    launch = replace(
        base, launcher="torchrun", processes=processes, nodes=nodes, asked=asked, distributed_type="MULTI_GPU"
    )
    return _program(launch, rest, folder, language, module="m" in options or "module" in options)


def _deepspeed(base: Launch, words: list[Text], folder: Path, language: Language) -> Launch | None:
    options, rest = _options(words)
    visible = base.visible
    include = options.get("include")
    if isinstance(include, str):
        chosen = [int(part) for part in re.findall(r"\d+", include.partition(":")[2])]
        visible = tuple(index for index in chosen if index in visible) or visible
    count = _number(options.get("num_gpus"), len(visible))
    nodes = _number(options.get("num_nodes"), 1) or 1
    launch = replace(
        base,
        launcher="deepspeed",
        processes=count or max(1, len(visible)),
        nodes=nodes,
        asked=count,
        visible=visible,
    )
    launch = replace(launch, distributed_type="DEEPSPEED")
    return _program(launch, rest, folder, language, module="module" in options)


def _accelerate(base: Launch, words: list[Text], folder: Path, language: Language) -> Launch | None:
    options, rest = _options(words)
    asked = _number(options.get("num_processes"), len(base.visible))
    launch = replace(base, launcher="accelerate", asked=asked)
    file = options.get("config_file")
    path = _beside(folder, file) if isinstance(file, str) else None
    if path is not None:
        launch = with_configuration(launch, read_settings(path, language), asked, language)
    elif isinstance(file, str):
        launch = replace(launch, missing=str(file))
    else:
        several = len(base.visible) > 1 and asked != 1 and not options.get("cpu")
        launch = replace(
            launch,
            processes=asked or (len(base.visible) if several else 1),
            distributed_type="MULTI_GPU" if several else "NO",
        )
    for flag, kind in (("multi_gpu", "MULTI_GPU"), ("use_fsdp", "FSDP"), ("use_deepspeed", "DEEPSPEED")):
        if options.get(flag):
            launch = replace(launch, distributed_type=kind)
    if asked is not None:
        launch = replace(launch, processes=max(1, asked // launch.nodes))
    if isinstance(stage := options.get("zero_stage"), str) and stage.isdigit():
        launch = replace(launch, zero_stage=int(stage))
    elif launch.distributed_type == "DEEPSPEED" and launch.zero_stage is None:
        launch = replace(launch, zero_stage=2)
    if isinstance(ds := options.get("deepspeed_config_file"), str):
        launch = _deepspeed_from(launch, ds, folder, language)
    if isinstance(ids := options.get("gpu_ids"), str) and ids != "all":
        wanted = [int(part) for part in ids.split(",") if part.isdigit()]
        launch = replace(launch, visible=tuple(index for index in wanted if index in launch.visible))
    return _program(launch, rest, folder, language, module="m" in options or "module" in options)


def _tool(base: Launch, tool: Tool, words: list[Text], folder: Path, language: Language) -> Launch | None:
    if not words or words[0] not in tool.verbs:
        return None
    count = base.environment.get("NPROC_PER_NODE")
    asked = int(count) if count and count.isdigit() else None
    several = asked if asked is not None else len(base.visible) if tool.starts_processes else 1
    launcher = "torchrun" if several > 1 else "python"
    kind = "MULTI_GPU" if several > 1 else "NO"
    launch = replace(
        base,
        launcher=launcher,
        processes=several,
        asked=asked,
        tool=tool,
        arguments=tuple(words[1:]),
        distributed_type=kind,
    )
    return with_arguments(launch, folder, language)


def _program(
    base: Launch, words: list[Text], folder: Path, language: Language, *, module: bool = False
) -> Launch | None:
    if not words:
        return None
    name, arguments = words[0], words[1:]
    if module:
        path = _beside(folder, name.replace(".", os.sep) + ".py") or _beside(
            folder, name.replace(".", os.sep) + "/__main__.py"
        )
    else:
        path = _beside(folder, name)
        if path is None and not name.endswith(".py"):
            tool = TOOLS.get(Path(name).name)
            if tool is not None and arguments:
                return with_arguments(
                    replace(base, tool=tool, arguments=tuple(arguments[1:])), folder, language
                )
            return None
    return with_arguments(
        replace(base, script=path, arguments=tuple(arguments), module=module), folder, language
    )
