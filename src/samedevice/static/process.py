"""One rank: what its environment, its visible GPUs and its libraries would answer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from samedevice.errors import UsageError
from samedevice.machines import visible_gpus
from samedevice.static.arguments import given_options
from samedevice.static.documents import Document, read_document
from samedevice.static.start import Start
from samedevice.static.values import (
    ANYWHERE,
    HOST,
    SPREADING,
    UNKNOWN,
    UNTOLD,
    Device,
    External,
    Instance,
    Model,
    Placement,
    device_of,
)

_TOLD = (
    "LOCAL_RANK",
    "RANK",
    "WORLD_SIZE",
    "LOCAL_WORLD_SIZE",
    "NODE_RANK",
    "GROUP_RANK",
    "NPROC_PER_NODE",
    "CUDA_VISIBLE_DEVICES",
)
_TOLD_PREFIXES = ("ACCELERATE_", "FSDP_", "TORCHELASTIC_", "SLURM_", "OMPI_", "PMI_", "MASTER_")


class Process:
    """The state of one rank while its script is read."""

    def __init__(self, start: Start) -> None:
        self.start = start
        self.local_rank = start.local_rank
        self.environment: dict[str, Any] = dict(start.environment)
        self.visible: tuple[int, ...] | None = None if start.gpus_untold and start.alone else start.gpus
        self.current = 0
        self.placed_current = False
        """Something chose the current device for this rank."""
        self.group: str | None = None
        """The backend of the process group that the script itself started."""
        self.zero3 = False
        """transformers knows by now that ZeRO-3 is on."""
        self.spawned: int | None = None
        """Processes that the script itself starts."""
        self.last = start.last or start.local_rank > 0
        """Whether this is the last of the processes that the script itself starts."""

    # Environment

    def variable(self, name: str, default: Any = None, has_default: bool = False) -> Any:
        """`os.environ.get(name, default)`."""
        if name in self.environment:
            return self.environment[name]
        if has_default or name in _TOLD or name.startswith(_TOLD_PREFIXES):
            return default
        return UNKNOWN

    def set_variable(self, name: str, value: Any) -> None:
        """`os.environ[name] = value`."""
        self.environment[name] = str(value) if isinstance(value, (str, int)) else value
        if name == "CUDA_VISIBLE_DEVICES":
            everything = max(self.start.gpus, default=-1) + 1
            readable = isinstance(value, (str, int)) and UNTOLD not in str(value)
            self.visible = visible_gpus(str(value), everything) if readable else None

    def given(self) -> dict[str, Any]:
        """The options that the program gets, by name."""
        return given_options(self.start.arguments, self.start.settings)

    # GPUs

    @property
    def world(self) -> int:
        """Processes of the group."""
        return self.spawned if self.spawned is not None else self.start.world

    @property
    def rank(self) -> int:
        """Among the processes of all machines."""
        return (self.start.nodes - 1) * self.start.processes + self.local_rank

    @property
    def gpus(self) -> int | None:
        """How many GPUs `torch.cuda.device_count()` would count.

        None when the script hides some in a way that cannot be told.
        """
        return None if self.visible is None else len(self.visible)

    def device(self, value: Any) -> Device | None:
        """A device with its index, the current one where none is given."""
        found = device_of(value)
        if found is not None and found.type == "cuda" and found.index is None:
            return Device("cuda", self.current)
        return found

    def gpu(self, index: int | None) -> int | None:
        """The machine's number of a visible index; None where it cannot be told, or there is no such GPU."""
        return (
            self.visible[index]
            if self.visible is not None and index is not None and index < len(self.visible)
            else None
        )

    def own(self, index: int | None) -> bool:
        """Whether a visible index is this rank's own GPU."""
        if self.visible is None or index is None or index >= len(self.visible):
            return self.visible is None
        expected = self.start.gpus[self.local_rank] if self.local_rank < len(self.start.gpus) else None
        return expected is None or self.gpu(index) == expected

    def placement(self, device_map: Any, limits: Any = None) -> Placement:
        """Where `from_pretrained(device_map=...)` puts a model."""
        if device_map is None:
            return HOST
        if isinstance(limits, dict):
            allowed = [
                key
                for key in limits
                if isinstance(key, int)
                and not isinstance(key, bool)
                and limits[key] not in (0, "0GB", "0GiB")
            ]
        else:
            allowed = []
        if isinstance(device_map, str) and device_map in SPREADING:
            return self._spread(allowed, limits)
        if isinstance(device_map, str) and device_map == "cuda":
            return Placement(
                "device", (f"cuda:{self.local_rank if self.start.processes > 1 else self.current}",)
            )
        if isinstance(device_map, dict):
            return self._mapped(device_map)
        found = self.device(device_map)
        if found is None:
            return ANYWHERE
        return HOST if found.type == "cpu" else Placement("device", (str(found),))

    def _spread(self, allowed: list[int], limits: Any) -> Placement:
        if limits is not None and not isinstance(limits, dict):
            return ANYWHERE
        count = self.gpus
        if count is None:
            return ANYWHERE
        if not count:
            return HOST
        used = allowed or list(range(count))
        names = tuple(f"cuda:{index}" for index in used)
        return (
            Placement("split", names, spread=True)
            if len(names) > 1
            else Placement("device", names or ("cuda:0",))
        )

    def _mapped(self, device_map: dict[Any, Any]) -> Placement:
        devices: list[str] = []
        for value in device_map.values():
            if isinstance(value, str) and value in ("disk", "meta"):
                continue
            found = self.device(value)
            if found is None:
                return ANYWHERE
            if str(found) not in devices:
                devices.append(str(found))
        gpus = [name for name in devices if name != "cpu"]
        if not devices:
            return ANYWHERE
        if len(gpus) > 1:
            return Placement("split", tuple(gpus), spread=True)
        return Placement("device", tuple(gpus)) if gpus else HOST

    # Libraries' objects

    def document(self, name: str) -> Document | None:
        """A file in YAML or JSON beside the script or in the working folder; None where it cannot be read."""
        folders = [Path.cwd(), *([self.start.script.parent] if self.start.script is not None else [])]
        file = next((each / name for each in folders if (each / name).is_file()), None)
        try:
            return read_document(file) if file is not None else None
        except UsageError:
            return None

    def stage_of(self, configuration: Any) -> int | None:
        """The ZeRO stage of a configuration of DeepSpeed.

        A dictionary, or a file beside the script or in the working folder.
        """
        if isinstance(configuration, str):
            document = self.document(configuration)
            configuration = document.data if document is not None else None
        if not isinstance(configuration, dict):
            return None
        zero = configuration.get("zero_optimization", {})
        stage = zero.get("stage", 0) if isinstance(zero, dict) else None
        return stage if isinstance(stage, int) else None

    def model_attribute(self, model: Model, name: str, value: Any) -> None:
        """`model.name = value`, where the Trainer looks at it."""
        if name in ("is_parallelizable", "model_parallel") and value is True:
            model.wrapped = model.wrapped or "model-parallel"

    def instance_attribute(self, owner: Instance, name: str) -> Any:
        """Attributes of objects of libraries, and of classes that derive from them.

        They are those of `Accelerator`, `PartialState` and `TrainingArguments`.
        """
        if not _knows_ranks(owner):
            return None
        if _is_arguments(owner):
            if name in ("local_rank", "process_index", "local_process_index"):
                return self.local_rank if self.world > 1 or name != "local_rank" else -1
            if name == "n_gpu":
                return 1 if self.world > 1 else (self.gpus if self.gpus is not None else UNKNOWN)
            if name == "world_size":
                return self.world
            if name == "device":
                return Device("cuda", self.local_rank if self.world > 1 else 0)
            if name == "parallel_mode":
                return External(
                    "transformers.ParallelMode." + ("DISTRIBUTED" if self.world > 1 else "NOT_DISTRIBUTED")
                )
            return None
        answers = {
            "process_index": self.rank,
            "local_process_index": self.local_rank,
            "num_processes": self.world,
            "device": Device("cuda", self.local_rank if self.world > 1 else 0),
            "is_main_process": self.local_rank == 0,
            "is_local_main_process": self.local_rank == 0,
            "state": owner,
            "use_distributed": self.world > 1,
        }
        if name == "distributed_type":
            kind = (
                self.start.distributed_type
                if self.start.by_accelerate
                else "MULTI_GPU"
                if self.world > 1
                else "NO"
            )
            return External(f"accelerate.DistributedType.{kind}")
        return answers.get(name)


def _knows_ranks(owner: Instance) -> bool:
    names = (
        [owner.kind.last]
        if isinstance(owner.kind, External)
        else [each.last for each in owner.kind.lineage() if isinstance(each, External)]
    )
    return any(
        name in ("Accelerator", "PartialState", "AcceleratorState") or _arguments_name(name) for name in names
    )


def _is_arguments(owner: Instance) -> bool:
    names = (
        [owner.kind.last]
        if isinstance(owner.kind, External)
        else [each.last for each in owner.kind.lineage() if isinstance(each, External)]
    )
    return any(_arguments_name(name) for name in names)


def _arguments_name(name: str) -> bool:
    return name.endswith(
        (
            "TrainingArguments",
            "SFTConfig",
            "DPOConfig",
            "RewardConfig",
            "KTOConfig",
            "ORPOConfig",
            "GRPOConfig",
            "PPOConfig",
        )
    )
