"""Training memory of one GPU, measured.

A real model takes real training steps on a virtual machine, and its ledger is read.

Must guarantee: what runs is what a script would run (transformers' model, torch's or DeepSpeed's own
sharding, torch's optimizer, peft's adapters); nothing is replaced but the GPUs. Weights have no values, so a
72B model needs no memory here.
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from samedevice.errors import SameDeviceError, UsageError
from samedevice.planner._plausible import few_modules
from samedevice.planner._settings import Lora, Training
from samedevice.planner._shape import configuration, parsed_config

if TYPE_CHECKING:
    import torch

    from samedevice.machines import Machine

    Loss = Callable[[torch.nn.Module, torch.Tensor], torch.Tensor]


@dataclass(frozen=True, slots=True)
class MeasuredStep:
    """Peaks of allocated bytes on rank 0's GPU in the last step, when the optimizer's states are there."""

    training: Training
    ranks: int
    built: int
    """Held before the first step."""
    forward: int
    backward: int
    step: int
    reserved: int
    """Peak of the whole run as the caching allocator would have asked it from the driver."""

    @property
    def peak(self) -> int:
        """The largest of the three."""
        return max(self.forward, self.backward, self.step)


def measure_step(
    config: Mapping[str, Any] | str | Path, machine: Machine, training: Training, steps: int = 2
) -> MeasuredStep:
    """Take `steps` training steps of a model, and read the ledger of rank 0.

    A transformers configuration describes the model.

    Ranks other than 0 are not run: they are assumed to do what rank 0 does, and collectives have their sizes.

    Raises torch.OutOfMemoryError where the step does not fit, and UsageError for what cannot run here:
    kernels of other libraries (8-bit optimizers, 4-bit weights), DeepSpeed.
    """
    if training.mode.startswith("zero"):
        raise UsageError("DeepSpeed's stages are estimated only; FSDP2 is what can be measured here")
    if training.optimizer == "adamw-8bit" or (
        isinstance(training.tuning, Lora) and training.tuning.quantized
    ):
        raise UsageError(
            "8-bit optimizers and 4-bit weights run kernels of bitsandbytes, which a virtual machine does "
            "not have"
        )
    from samedevice.runtime import VirtualMachine

    values = configuration(config)
    ranks = 1 if training.mode == "single" else training.chosen_ranks or len(machine.gpus)
    virtual = VirtualMachine(machine, on_mismatch="raise", assumed_ranks=None if ranks == 1 else ranks)
    virtual.leave_out_workspaces()  # they are in the reserve
    with virtual, _process_group(ranks):
        return _Run(values, training, ranks).measure(steps)


class TooLarge(SameDeviceError):
    """A step does not fit the machine."""


def step_within(config: Mapping[str, Any] | str | Path, machine: Machine, training: Training) -> MeasuredStep:
    """The same for whoever has no torch: raises `TooLarge` with torch's text where the step does not fit.

    What torch would warn the writer of a program about is not told.
    """
    import torch

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return measure_step(config, machine, training)
    except torch.OutOfMemoryError as error:
        raise TooLarge(str(error).partition("\n")[0]) from None


def step_here(config: Mapping[str, Any] | str | Path, training: Training, steps: int = 2) -> MeasuredStep:
    """The same on the first GPU of this computer, in this process alone.

    Inside a virtual machine it is the first GPU of that.

    Raises UsageError for a mode of several processes, and torch.OutOfMemoryError where the step does not fit.
    """
    if training.mode != "single":
        raise UsageError(f"one process takes steps of the mode single, not {training.mode}")
    return _Run(configuration(config), training, 1).measure(steps)


@contextlib.contextmanager
def _process_group(ranks: int) -> Iterator[None]:
    """A process group of that many ranks, of which this process is the first and the others are assumed."""
    if ranks == 1:
        yield
        return
    import torch.distributed as dist

    if dist.is_initialized():
        raise UsageError("a process group exists already; a step is measured where there is none")
    dist.init_process_group("nccl", rank=0, world_size=ranks, store=dist.HashStore())  # type: ignore[attr-defined] # torch does not export it
    try:
        yield
    finally:
        dist.destroy_process_group()


class _Run:
    """One model in training on `cuda:0`."""

    def __init__(self, values: Mapping[str, Any], training: Training, ranks: int) -> None:
        import torch

        self.training = training
        self.ranks = ranks
        self.device = torch.device("cuda", 0)
        self.half = torch.float16 if training.precision.startswith("fp16") else torch.bfloat16
        self.sharded = training.mode in ("fsdp", "hybrid")
        self.autocast = training.precision.endswith("-mixed") and not self.sharded
        self.model = self._prepared(self._built(values))
        self.optimizer = self._optimizer()

    def _built(self, values: Mapping[str, Any]) -> torch.nn.Module:
        import torch
        from transformers import AutoModelForCausalLM

        training = self.training
        full = training.precision == "fp32"
        master = training.precision.endswith("-mixed") and not isinstance(training.tuning, Lora)
        before = torch.get_default_dtype()
        torch.set_default_dtype(torch.float32 if full or master else self.half)
        try:
            with torch.device("meta" if self.sharded else self.device), few_modules():
                config = parsed_config({**_typeless(values), "use_cache": False})
                model: Any = AutoModelForCausalLM.from_config(config)  # type: ignore[no-untyped-call]
        finally:
            torch.set_default_dtype(before)
        if isinstance(training.tuning, Lora):
            model = _with_adapters(model, training.tuning)
        if training.checkpointing:
            enable = (
                getattr(model, "activation_checkpointing_enable", None) or model.gradient_checkpointing_enable
            )
            enable()
            if isinstance(training.tuning, Lora):
                model.enable_input_require_grads()
        model.train()
        made: torch.nn.Module = model
        return made

    def _prepared(self, model: torch.nn.Module) -> torch.nn.Module:
        if self.training.mode == "ddp":
            import torch

            return torch.nn.parallel.DistributedDataParallel(
                model, device_ids=[self.device], gradient_as_bucket_view=self.training.bucket_view
            )
        return self._sharded(model) if self.sharded else model

    def _sharded(self, model: torch.nn.Module) -> torch.nn.Module:
        import torch
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import CPUOffloadPolicy, MixedPrecisionPolicy, fully_shard

        training = self.training
        if training.mode == "hybrid":
            group = training.gpus_per_group or max(1, self.ranks // 2)
            mesh = init_device_mesh(
                "cuda", (self.ranks // group, group), mesh_dim_names=("replicate", "shard")
            )
        else:
            mesh = init_device_mesh("cuda", (self.ranks,))
        options: dict[str, Any] = {"mesh": mesh}
        if training.precision.endswith("-mixed"):
            options["mp_policy"] = MixedPrecisionPolicy(param_dtype=self.half, reduce_dtype=torch.float32)
        if training.offload != "none":
            options["offload_policy"] = CPUOffloadPolicy()
        for block in _blocks(model):
            fully_shard(block, **options)
        fully_shard(model, **options)
        place = torch.device("cpu") if training.offload != "none" else self.device
        return model.to_empty(device=place)

    def _optimizer(self) -> torch.optim.Optimizer:
        import torch

        trained = [parameter for parameter in self.model.parameters() if parameter.requires_grad]
        kind = self.training.optimizer
        if kind == "adamw":
            return torch.optim.AdamW(trained, fused=True)
        if kind == "adamw-foreach":
            return torch.optim.AdamW(trained, foreach=True)
        if kind == "adafactor":
            return torch.optim.Adafactor(trained)
        return torch.optim.SGD(trained, lr=1e-3, momentum=0.9 if kind == "sgd-momentum" else 0.0)

    def measure(self, steps: int) -> MeasuredStep:
        import torch

        training = self.training
        peaks: dict[str, int] = {}
        built = torch.cuda.memory_allocated()
        for _ in range(steps):
            peaks = {"forward": 0, "backward": 0, "step": 0}
            for _ in range(training.accumulation):
                tokens = torch.zeros(
                    training.micro_batch, training.context, dtype=torch.long, device=self.device
                )
                with _peak(peaks, "forward"):
                    loss = self._loss(tokens)
                with _peak(peaks, "backward"):
                    loss.backward()  # type: ignore[no-untyped-call] # torch has no types there
                del loss
            with _peak(peaks, "step"):
                # An offloaded state steps on the host, which holds nothing on the GPU and here would only
                # cost the host's time.
                if training.offload == "none":
                    self.optimizer.step()
            self.optimizer.zero_grad()
        reserved = torch.cuda.max_memory_reserved()
        return MeasuredStep(
            training, self.ranks, built, peaks["forward"], peaks["backward"], peaks["step"], reserved
        )

    def _loss(self, tokens: torch.Tensor) -> torch.Tensor:
        import torch

        with torch.autocast("cuda", self.half) if self.autocast else contextlib.nullcontext():
            loss: torch.Tensor = self.model(input_ids=tokens, labels=tokens).loss
        return loss


def _typeless(values: Mapping[str, Any]) -> dict[str, Any]:
    """A configuration that leaves the type of the weights to torch's default.

    `from_config` takes the checkpoint's since transformers 5, and master weights have another one.
    """
    return {
        key: _typeless(value) if isinstance(value, Mapping) else value
        for key, value in values.items()
        if key not in ("dtype", "torch_dtype")
    }


@contextlib.contextmanager
def _peak(peaks: dict[str, int], name: str) -> Iterator[None]:
    import torch

    torch.cuda.reset_peak_memory_stats()
    yield
    peaks[name] = max(peaks[name], torch.cuda.max_memory_allocated())


def _blocks(model: torch.nn.Module) -> list[torch.nn.Module]:
    """The repeated layers: children of the largest ModuleList."""
    import torch

    lists = [module for module in model.modules() if isinstance(module, torch.nn.ModuleList)]
    largest = max(lists, key=lambda module: sum(p.numel() for p in module.parameters()), default=None)
    return [] if largest is None else list(largest)


def _with_adapters(model: Any, tuning: Lora) -> Any:
    try:
        from peft import LoraConfig, get_peft_model
    except ImportError as error:
        raise UsageError(f"adapters are peft's, which is not installed: {error}") from None
    targets: Any = tuning.targets if tuning.targets == "all-linear" else list(tuning.targets)
    config = LoraConfig(
        r=tuning.rank, target_modules=targets, lora_dropout=tuning.dropout, task_type="CAUSAL_LM"
    )
    return get_peft_model(model, config, autocast_adapter_dtype=tuning.fp32_adapters)
