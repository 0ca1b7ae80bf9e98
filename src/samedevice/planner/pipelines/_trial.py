"""A pipeline on trial: it is loaded, and makes pictures in two steps, on a virtual machine.

Must guarantee: what runs is the pipeline's own code with diffusers' loaders and accelerate's hooks, as in the
script of the plan; of the pipeline only configurations are used. A tokenizer is replaced by one that makes
prompts of full length, since its files hold words and decide nothing else.

Source of the way components are placed: `diffusers/pipelines/pipeline_loading_utils.py`, `load_sub_model`
(0.42): `from_pretrained` with `{"": gpu}`, then `dispatch_model(..., force_hooks=True)`. A pipeline's
`from_pretrained` takes the strategy `balanced` alone, and refuses a map (`pipeline_utils.py`).
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import inspect
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from packaging.version import Version

from samedevice.errors import SameDeviceError, UsageError
from samedevice.events import Event
from samedevice.machines import Machine
from samedevice.messages import Phrase
from samedevice.planner.inference._passes import quiet
from samedevice.planner.inference._profile import endless
from samedevice.planner.inference._proof import EXPANDABLE
from samedevice.planner.pipelines._placing import Component
from samedevice.planner.pipelines._source import PipelineSource

_PACKAGES = ("torch", "diffusers", "transformers", "accelerate")
_STEPS = 2
"""Of denoising: all need the same memory from the second on."""
_TOKENS = {"CLIPTokenizer": 77, "CLIPTokenizerFast": 77}
_MOST_TOKENS = 512
"""Of a prompt, where neither its tokenizer nor the pipeline allows fewer."""


@dataclass(frozen=True, slots=True)
class Picture:
    """What a pipeline is to make: so many pictures (or films) in one call; None: the pipeline's own size."""

    batch: int = 1
    size: tuple[int, int] | None = None
    """Width and height in pixels."""


@dataclass(frozen=True, slots=True)
class PipelinePeak:
    """The most bytes that tensors held on one GPU."""

    gpu: int
    load: int
    run: int
    reserved: int
    """The most that the caching allocator would have asked of the driver."""

    @property
    def allocated(self) -> int:
        """The larger of the two."""
        return max(self.load, self.run)


@dataclass(frozen=True, slots=True)
class PipelineProof:
    """What happened on trial."""

    peaks: tuple[PipelinePeak, ...]
    events: tuple[tuple[Event, int], ...]
    """What the machine recorded, with how often: a finding each."""
    out_of_memory: bool
    """The machine's memory did not suffice; the peaks are from a trial without a limit."""
    error: str | None
    seconds: float
    versions: Mapping[str, str]
    expandable: bool = False
    """It holds with `expandable_segments:True` alone; see `inference.Proof`."""

    def holds(self, budgets: Mapping[int, int]) -> bool:
        """Whether nothing was found and every peak is within its GPU's budget."""
        within = all(peak.allocated <= budgets[peak.gpu] for peak in self.peaks)
        return within and not self.events and not self.out_of_memory and self.error is None


@dataclass(frozen=True, slots=True)
class PipelineProfile:
    """What each component needs, measured on a single GPU without a limit; bytes."""

    components: tuple[Component, ...]
    """In the order of the pipeline's own list, whose first one decides where prompts and latents are."""
    held: int
    """Kept by the pipeline itself while components change."""


def profile_pipeline(source: PipelineSource, picture: Picture) -> PipelineProfile:
    """Measure the components of a pipeline. Raises UsageError where it cannot be built or does not run."""
    trial = _Trial(source, dict.fromkeys(source.models, 0), picture, watch=True)
    trial.run(endless(1))
    if trial.error is not None:
        raise UsageError(Phrase("place.unrunnable", architecture=source.kind, reason=trial.error))
    return PipelineProfile(
        tuple(
            Component(name, source.models[name][1], *sizes, trial.needed.get(name, 0))
            for name, sizes in trial.sizes.items()
        ),
        trial.held,
    )


def prove_pipeline(
    source: PipelineSource, machine: Machine, gpus: Mapping[str, int], picture: Picture
) -> PipelineProof:
    """Load the pipeline by the map on a virtual `machine`, and make a picture in two steps."""
    import torch

    began = time.perf_counter()
    trial = _Trial(source, gpus, picture)
    out_of_memory = expandable = False
    for allocator in ("", EXPANDABLE):
        try:
            trial = _Trial(source, gpus, picture)
            trial.run(machine, allocator)
        except torch.OutOfMemoryError:
            out_of_memory = True
            continue
        out_of_memory, expandable = False, bool(allocator)
        break
    if out_of_memory:
        limitless = endless(len(machine.gpus))
        trial = _Trial(source, gpus, picture)
        trial.run(replace(limitless, links=machine.links, every_link=machine.every_link))
    return PipelineProof(
        tuple(trial.peaks),
        tuple(trial.events),
        out_of_memory,
        trial.error,
        time.perf_counter() - began,
        {name: importlib.metadata.version(name) for name in _PACKAGES},
        expandable,
    )


def automatic_map(source: PipelineSource, machine: Machine) -> dict[str, int | str]:
    """The map of diffusers' own `device_map="balanced"` on this machine.

    A component that is missing from it is one that diffusers leaves on the host without hooks.
    """
    from samedevice.runtime import VirtualMachine

    with _quiet(), VirtualMachine(machine):
        diffusers = _diffusers()
        pipe = diffusers.DiffusionPipeline.from_pretrained(
            str(source.folder), device_map="balanced", **_dtype(source, "diffusers"), **_stand_ins(source)
        )
        found: dict[str, int | str] = dict(pipe.hf_device_map or {})
    return found


def _diffusers() -> Any:
    """Raises UsageError where diffusers or accelerate is not installed."""
    try:
        import accelerate  # noqa: F401 # diffusers asks for it when components are placed
        import diffusers
    except ImportError:
        raise UsageError(Phrase("pipeline.no-diffusers")) from None
    return diffusers


def _dtype(source: PipelineSource, *libraries: str) -> dict[str, Any]:
    """The argument for the type of the weights."""
    import torch

    return {dtype_argument(*libraries): getattr(torch, source.dtype)}


def dtype_argument(*libraries: str) -> str:
    """How all these libraries, as they are installed, call the type of the weights."""
    return "dtype" if all(map(_takes_dtype, libraries)) else "torch_dtype"


def _takes_dtype(library: str) -> bool:
    if library == "transformers":
        return Version(importlib.metadata.version(library)) >= Version("4.56")
    loader = importlib.import_module("diffusers.models.modeling_utils").ModelMixin.from_pretrained
    return '"dtype"' in inspect.getsource(inspect.unwrap(loader))


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """As `quiet`, for diffusers, too."""
    with quiet():
        told = _diffusers().utils.logging
        level = told.get_verbosity()
        told.set_verbosity(50)
        told.disable_progress_bar()
        try:
            yield
        finally:
            told.set_verbosity(level)
            told.enable_progress_bar()


def _stand_ins(source: PipelineSource) -> dict[str, Any]:
    """A tokenizer for each of the pipeline's, of the class that it expects."""
    import transformers

    made = {}
    for name, (library, kind) in source.components.items():
        base = getattr(transformers, kind, None) if library == "transformers" else None
        if isinstance(base, type) and issubclass(base, transformers.PreTrainedTokenizerBase):
            made[name] = _stand_in(base, _TOKENS.get(kind, _MOST_TOKENS))
    return made


def _stand_in(base: type, length: int) -> Any:
    """A tokenizer without words: every prompt has as many tokens as are asked for, at most `length`."""
    import torch
    import transformers

    def call(self: Any, text: Any, *args: Any, max_length: int | None = None, **kwargs: Any) -> Any:
        count = len(text) if isinstance(text, (list, tuple)) else 1
        ids = torch.ones(count, min(max_length or length, length), dtype=torch.long)
        return transformers.BatchEncoding({"input_ids": ids, "attention_mask": torch.ones_like(ids)})

    members = {
        "__init__": lambda self: None,
        "__call__": call,
        "__setattr__": object.__setattr__,
        "__getattr__": object.__getattribute__,
        "__len__": lambda self: 2,
        "__repr__": lambda self: f"<stand-in for a {base.__name__}>",
        "model_max_length": length,
        "padding_side": "right",
        "pad_token": "",
        "pad_token_id": 0,
        "eos_token_id": 1,
        "added_tokens_encoder": {},
        "tokenize": lambda self, *args, **kwargs: [],
        "batch_decode": lambda self, *args, **kwargs: [""],
        "apply_chat_template": lambda self, *args, **kwargs: "",
    }
    return type(base.__name__, (base,), members)()


class _Trial:
    """One pipeline on one machine."""

    def __init__(
        self, source: PipelineSource, gpus: Mapping[str, int], picture: Picture, *, watch: bool = False
    ) -> None:
        self.source = source
        self.gpus = gpus
        self.picture = picture
        self.used = sorted(set(gpus.values()))
        self.watch = watch
        self.peaks: list[PipelinePeak] = []
        self.events: list[tuple[Event, int]] = []
        self.error: str | None = None
        self.sizes: dict[str, tuple[int, int]] = {}
        """Of each component the bytes and the number of its weights, in the pipeline's order."""
        self.needed: dict[str, int] = {}
        self.held = 0
        self._running: str | None = None
        self._base = 0

    def run(self, machine: Machine, allocator: str = "") -> None:
        """The whole trial, with these settings of torch's allocator.

        Raises torch.OutOfMemoryError where the machine is too small.
        """
        import torch

        from samedevice.runtime import VirtualMachine

        with _quiet():
            virtual = VirtualMachine(machine, on_mismatch="record", allocator=allocator or None)
            phases: list[list[int]] = []
            try:
                with virtual, torch.no_grad():
                    pipe = self._load()
                    phases.append(self._peak_of_each())
                    self._call(pipe)
                    phases.append(self._peak_of_each())
            except torch.OutOfMemoryError:
                raise
            except SameDeviceError:
                raise
            except Exception as error:  # of the pipeline's own code, whatever it is
                self.error = f"{type(error).__name__}: {error}"
            self.events = list(zip(virtual.events, virtual.event_counts, strict=True))
            memory = virtual.memory()
            phases += [[0] * len(self.used)] * (2 - len(phases))
            self.peaks = [
                PipelinePeak(gpu, load, run, memory[f"cuda:{gpu}"].peak_reserved)
                for gpu, load, run in zip(self.used, *phases, strict=True)
            ]

    def _load(self) -> Any:
        """Each component on its GPU, then the pipeline around them."""
        from accelerate import dispatch_model

        diffusers, folder = _diffusers(), str(self.source.folder)
        made: dict[str, Any] = {}
        for name, (library, kind) in self.source.models.items():
            loader = getattr(importlib.import_module(library), kind, None)
            if loader is None:
                raise UsageError(Phrase("pipeline.other-component", name=name, kind=f"{library}.{kind}"))
            named = _dtype(self.source, library)
            place = {"": self.gpus[name]}
            model = loader.from_pretrained(folder, subfolder=name, device_map=place, **named)
            made[name] = dispatch_model(model, device_map=place, force_hooks=True)
        pipe = diffusers.DiffusionPipeline.from_pretrained(
            folder, **made, **_stand_ins(self.source), **_dtype(self.source, "diffusers")
        )
        pipe.set_progress_bar_config(disable=True)
        for name, part in pipe.components.items():
            if name in made:
                weights = {id(each): each for each in (*part.parameters(), *part.buffers())}.values()
                size = sum(-(-each.numel() * each.element_size() // 512) * 512 for each in weights)
                self.sizes[name] = size, sum(each.numel() for each in part.parameters())
        return pipe

    def _call(self, pipe: Any) -> None:
        known = inspect.signature(pipe.__call__).parameters
        asked: dict[str, Any] = {"num_inference_steps": _STEPS, "output_type": "pt"}
        if "prompt" in known:
            asked["prompt"] = ["a"] * self.picture.batch
        else:
            asked["batch_size"] = self.picture.batch
        if self.picture.size is not None:
            width, height = self.picture.size
            if not {"width", "height"} <= set(known):
                raise UsageError(Phrase("pipeline.one-size", architecture=self.source.kind))
            asked |= {"width": width, "height": height}
        handles = self._watched(pipe) if self.watch else []
        try:
            pipe(**{name: value for name, value in asked.items() if name in known})
            if self.watch:
                self._enter("")
        finally:
            for handle in handles:
                handle.remove()

    def _watched(self, pipe: Any) -> list[Any]:
        """What tells which component runs: any of its modules, since some have other methods than forward."""
        import torch

        self._base = torch.cuda.memory_allocated()
        handles = []
        for name in self.sizes:
            for module in getattr(pipe, name).modules():

                def enter(*_: Any, name: str = name) -> None:
                    if self._running != name:
                        self._enter(name)

                handles.append(module.register_forward_pre_hook(enter))
        return handles

    def _enter(self, name: str) -> None:
        """From now on `name` runs; the peak until now was the one's before."""
        import torch

        peak = torch.cuda.max_memory_allocated() - self._base
        if self._running is not None:
            self.needed[self._running] = max(self.needed.get(self._running, 0), peak)
        self.held = max(self.held, torch.cuda.memory_allocated() - self._base)
        self._running = name
        torch.cuda.reset_peak_memory_stats()

    def _peak_of_each(self) -> list[int]:
        """Peaks since the last call; a trial that watches has none."""
        import torch

        peaks = [torch.cuda.max_memory_allocated(gpu) for gpu in self.used]
        for gpu in self.used:
            torch.cuda.reset_peak_memory_stats(gpu)
        return peaks
