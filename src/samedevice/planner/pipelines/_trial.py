"""A pipeline on trial: it is loaded, and makes pictures in two steps, on a virtual machine.

Must guarantee: what runs is the pipeline's own code with diffusers' loaders and accelerate's hooks, as in the
script of the plan; of the pipeline only configurations are used. A tokenizer is replaced by one that makes
prompts of full length, since its files hold words and decide nothing else.

Source of the way components are placed: `diffusers/pipelines/pipeline_loading_utils.py`, `load_sub_model`
(0.42): `from_pretrained` with `{"": gpu}`, then `dispatch_model(..., force_hooks=True)`, whose hooks copy
lists that a module is given and changes, but for the names in its `_skip_keys`. A pipeline's
`from_pretrained` takes the strategy `balanced` alone, and refuses a map (`pipeline_utils.py`).
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import inspect
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from packaging.version import Version

from samedevice.errors import UsageError
from samedevice.machines import Machine
from samedevice.messages import Phrase
from samedevice.planner._trial import Proof, Trial, endless, tried
from samedevice.planner.inference._passes import quiet
from samedevice.planner.pipelines._offload import AUTOENCODER, Offload
from samedevice.planner.pipelines._placing import Component
from samedevice.planner.pipelines._source import CONFIG, INDEX, LIBRARIES, PipelineSource

if TYPE_CHECKING:
    from samedevice.runtime import VirtualMachine

_STEPS = 2
"""Of denoising: all need the same memory from the second on."""
_TOKENS = {"CLIPTokenizer": 77, "CLIPTokenizerFast": 77}
_MOST_TOKENS = 512
"""Of a prompt, where neither its tokenizer nor the pipeline allows fewer."""


@dataclass(frozen=True, slots=True)
class Picture:
    """What a pipeline is to make: so many pictures or films in one call; None: as the pipeline has it."""

    batch: int = 1
    size: tuple[int, int] | None = None
    """Width and height in pixels."""
    frames: int | None = None
    """Of a film."""


@dataclass(frozen=True, slots=True)
class PipelineProfile:
    """What each component needs, measured on a single GPU without a limit; bytes."""

    components: tuple[Component, ...]
    """In the order of the pipeline's own list, whose first one decides where prompts and latents are."""
    held: int
    """Kept by the pipeline itself while components change."""
    tiles: bool
    """Whether its autoencoder can work on tiles (`enable_tiling`)."""
    skipped: Mapping[str, tuple[str, ...]]
    """Of components that say so: arguments that hooks must not copy."""
    made: Picture
    """What one call came to: the pipeline's own size and frames where none were asked for."""
    wishes: Mapping[str, Any]
    """Arguments of the call that ask for it, by their names; a prompt for each picture."""
    levers: tuple[str, ...]
    """Options that it takes and that decide how large what it makes is."""


def profile_pipeline(source: PipelineSource, picture: Picture) -> PipelineProfile:
    """Measure the components of a pipeline. Raises UsageError where it cannot be built or does not run."""
    trial = _alone(source, picture)
    if trial.error is not None:
        raise _why_not(source, picture, trial.error, trial.reading)
    return PipelineProfile(
        tuple(
            Component(name, source.models[name][1], *sizes, trial.needed.get(name, 0))
            for name, sizes in trial.sizes.items()
        ),
        trial.held,
        trial.tiles,
        trial.skipped,
        trial.made,
        trial.wishes,
        trial.levers,
    )


def _alone(source: PipelineSource, picture: Picture) -> _Trial:
    """A trial on one GPU without a limit, which watched the components."""
    trial = _Trial(source, dict.fromkeys(source.models, 0), picture, watch=True)
    trial.run(endless(1))
    return trial


def _why_not(source: PipelineSource, picture: Picture, error: str, reading: Path | None) -> UsageError:
    """What a trial on one GPU failed by: a file that it was reading, what was asked for, or the code."""
    if reading is not None:
        return UsageError(Phrase("pipeline.unloadable", path=str(reading), reason=error))
    own = Picture(picture.batch)
    if picture != own and _alone(source, own).error is None:
        return UsageError(Phrase("pipeline.not-this", asked=made_phrase(picture), reason=error))
    return UsageError(Phrase("place.unrunnable", architecture=source.kind, reason=error))


def prove_pipeline(
    source: PipelineSource,
    machine: Machine,
    gpus: Mapping[str, int],
    picture: Picture,
    expected: Picture | None = None,
) -> Proof:
    """Load the pipeline by the map on a virtual `machine`, and make a picture in two steps.

    `expected`: what the pipeline makes on one GPU; None where that is not known.
    """
    return tried(lambda: _Trial(source, gpus, picture, expected=expected), machine)


def prove_offload(
    source: PipelineSource,
    machine: Machine,
    gpu: int,
    offload: Offload,
    picture: Picture,
    expected: Picture | None = None,
) -> Proof:
    """The same with all components on the host, which come to one GPU when they run."""
    gpus = dict.fromkeys(source.models, gpu)
    return tried(lambda: _Trial(source, gpus, picture, offload=offload, expected=expected), machine)


def prove_balanced(
    source: PipelineSource, machine: Machine, picture: Picture, expected: Picture | None = None
) -> Proof:
    """The same with diffusers' own `device_map="balanced"`, whose map the proof then has.

    A component that is missing from it is one that diffusers leaves on the host without hooks. Where memory
    does not suffice, there are no peaks.
    """
    import torch

    began = time.perf_counter()
    trial = _Balanced(source, {}, picture, expected=expected, used=range(len(machine.gpus)))
    try:
        trial.run(machine)
    except torch.OutOfMemoryError:
        return trial.proof(began, out_of_memory=True)
    return trial.proof(began)


def made_phrase(made: Picture) -> Phrase:
    """The size of pictures, and the length of films."""
    if made.size is None:
        return (
            Phrase("pipeline.own-size")
            if made.frames is None
            else Phrase("pipeline.own-size-film", frames=made.frames)
        )
    width, height = made.size
    if made.frames is None:
        return Phrase("pipeline.size", width=width, height=height)
    return Phrase("pipeline.size-film", width=width, height=height, frames=made.frames)


def _seen(made: Any, asked: Picture) -> Picture:
    """What a call of a pipeline made; where it is neither pictures nor films, it is as it was asked for.

    Pictures are (picture, channel, height, width), films have their frames before the channels.
    """
    shape = tuple(getattr(next(iter(made.values()), None), "shape", ()))
    if len(shape) not in (4, 5):
        return asked
    return replace(asked, size=(shape[-1], shape[-2]), frames=shape[1] if len(shape) == 5 else None)


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


def _pipeline_class(source: PipelineSource) -> Any:
    """The pipeline's class.

    Raises UsageError where a class that the index names, or the configuration of a model, is missing.
    """
    import torch

    index = source.folder / INDEX
    for name, (library, kind) in source.components.items():
        if library in LIBRARIES and name not in source.models:
            found = _class(library, kind, index)
            if isinstance(found, type) and issubclass(found, torch.nn.Module):
                path = source.folder / name / CONFIG
                raise UsageError(Phrase("pipeline.no-config", path=str(path), name=name, kind=kind))
    return _class("diffusers", source.kind, index)


def _class(library: str, kind: str, index: Path) -> Any:
    """A class of an installed library, which this index names."""
    found = getattr(importlib.import_module(library), kind, None)
    if found is None:
        version = importlib.metadata.version(library)
        raise UsageError(
            Phrase("pipeline.no-class", library=library, version=version, kind=kind, path=str(index))
        )
    return found


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


class _Trial(Trial):
    """One pipeline on one machine."""

    phases = ("load", "run")
    packages = ("torch", "diffusers", "transformers", "accelerate")

    def __init__(
        self,
        source: PipelineSource,
        gpus: Mapping[str, int],
        picture: Picture,
        *,
        offload: Offload | None = None,
        expected: Picture | None = None,
        used: Iterable[int] = (),
        watch: bool = False,
    ) -> None:
        """A trial that watches measures the components, without hooks around them.

        `used`: numbers of GPUs besides those in the map.
        """
        super().__init__(gpus, sorted({*gpus.values(), *used}))
        self.source = source
        self.picture = picture
        self.offload = offload
        self.expected = expected
        self.watch = watch
        self.sizes: dict[str, tuple[int, int]] = {}
        """Of each component the bytes and the number of its weights, in the pipeline's order."""
        self.needed: dict[str, int] = {}
        self.held = 0
        self.tiles = False
        self.skipped: dict[str, tuple[str, ...]] = {}
        self.made = picture
        self.wishes: dict[str, Any] = {}
        self.levers: tuple[str, ...] = ()
        self.reading: Path | None = None
        """The configuration of what is being built."""
        self._running: str | None = None
        self._base = 0

    def around(self) -> contextlib.AbstractContextManager[None]:
        """Quiet libraries."""
        return _quiet()

    def parts(self, virtual: VirtualMachine) -> Iterator[None]:
        """Load the pipeline, then call it."""
        pipe = self._load()
        yield
        self._call(pipe)
        yield

    def _load(self) -> Any:
        """Each component on its GPU or the host, then the pipeline around them.

        By its own class: `DiffusionPipeline` loads components anew that a pipeline can do without
        (`_optional_components`).
        """
        kind = _pipeline_class(self.source)
        made = (
            {} if self.offload is not None else {name: self._component(name) for name in self.source.models}
        )
        self.reading = self.source.folder / INDEX
        pipe = kind.from_pretrained(
            str(self.source.folder), **made, **_stand_ins(self.source), **_dtype(self.source, "diffusers")
        )
        self.reading = None
        pipe.set_progress_bar_config(disable=True)
        if self.offload is not None:
            self.offload.enable(pipe, self.gpus[0])
        for name, part in pipe.components.items():
            if name in made:
                weights = {id(each): each for each in (*part.parameters(), *part.buffers())}.values()
                size = sum(-(-each.numel() * each.element_size() // 512) * 512 for each in weights)
                self.sizes[name] = size, sum(each.numel() for each in part.parameters())
                self.tiles |= name == AUTOENCODER and hasattr(part, "enable_tiling")
                if (keys := getattr(part, "_skip_keys", None)) is not None:
                    self.skipped[name] = tuple(keys)
        return pipe

    def _component(self, name: str) -> Any:
        from accelerate import dispatch_model

        library, kind = self.source.models[name]
        loader = _class(library, kind, self.source.folder / INDEX)
        self.reading = self.source.folder / name / CONFIG
        place = {"": self.device_map[name]}
        model = loader.from_pretrained(
            str(self.source.folder), subfolder=name, device_map=place, **_dtype(self.source, library)
        )
        if self.watch:
            return model
        skipped = getattr(model, "_skip_keys", None)
        return dispatch_model(model, device_map=place, force_hooks=True, skip_keys=skipped)

    def _call(self, pipe: Any) -> None:
        known = frozenset(inspect.signature(pipe.__call__).parameters)
        self.wishes = self._wishes(known)
        shortened = {"num_inference_steps": _STEPS, "output_type": "pt"}
        handles = self._watched(pipe) if self.watch else []
        try:
            made = pipe(**self.wishes, **{name: shortened[name] for name in shortened.keys() & known})
            self.made = _seen(made, self.picture)
            if self.expected is not None and self.made != self.expected:
                self.different = Phrase(
                    "pipeline.different", made=made_phrase(self.made), expected=made_phrase(self.expected)
                )
            if self.watch:
                self._enter("")
        finally:
            for handle in handles:
                handle.remove()

    def _wishes(self, known: frozenset[str]) -> dict[str, Any]:
        """The picture as arguments of a call that takes these."""
        asked: dict[str, Any] = {}
        if {"width", "height"} <= known:
            self.levers += ("--image-size",)
        if "num_frames" in known:
            self.levers += ("--frames",)
        if "prompt" in known:
            asked["prompt"] = ["a"] * self.picture.batch
        elif "batch_size" in known:
            asked["batch_size"] = self.picture.batch
        elif self.picture.batch > 1:
            raise UsageError(Phrase("pipeline.no-batch", architecture=self.source.kind))
        if self.picture.size is not None:
            if not {"width", "height"} <= known:
                raise UsageError(Phrase("pipeline.one-size", architecture=self.source.kind))
            asked["width"], asked["height"] = self.picture.size
        if self.picture.frames is not None:
            if "num_frames" not in known:
                raise UsageError(Phrase("pipeline.no-frames", architecture=self.source.kind))
            asked["num_frames"] = self.picture.frames
        return asked

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


class _Balanced(_Trial):
    """One pipeline as diffusers itself places it."""

    def _load(self) -> Any:
        pipe = _diffusers().DiffusionPipeline.from_pretrained(
            str(self.source.folder),
            device_map="balanced",
            **_stand_ins(self.source),
            **_dtype(self.source, "diffusers"),
        )
        pipe.set_progress_bar_config(disable=True)
        self.device_map = dict(pipe.hf_device_map or {})
        return pipe
