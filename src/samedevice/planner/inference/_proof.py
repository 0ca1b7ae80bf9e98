"""A plan on trial: the model loads with the device map on a virtual machine, reads a prompt and goes on.

Must guarantee: what runs is what a script would run (`from_pretrained` with this map, accelerate's hooks,
`generate`), at full size, on the machine that was named; of the model only its configuration is used.
"""

from __future__ import annotations

import contextlib
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from samedevice.errors import UsageError
from samedevice.machines import Machine
from samedevice.messages import Phrase
from samedevice.planner._trial import Place, Proof, Trial, tried
from samedevice.planner.inference._blocks import Workload
from samedevice.planner.inference._passes import Passes, quiet
from samedevice.planner.inference._source import ModelSource, config_text, model_class

if TYPE_CHECKING:
    from samedevice.runtime import VirtualMachine

_NAMED_DTYPE = (4, 56)
"""Since this release of transformers `dtype` is the name of what was `torch_dtype`."""


def prove_automatic(source: ModelSource, machine: Machine, workload: Workload) -> Proof:
    """The same with the map that `device_map="auto"` comes to; its map is empty where that did not load."""
    import torch

    _needs_accelerate()
    began = time.perf_counter()
    trial = _Trial(source, None, workload, range(len(machine.gpus)))
    try:
        trial.run(machine)
    except torch.OutOfMemoryError:
        return trial.proof(began, out_of_memory=True)
    return trial.proof(began)


def prove(
    source: ModelSource, machine: Machine, device_map: Mapping[str, Place], workload: Workload
) -> Proof:
    """Load the model by the map on a virtual `machine`, read the prompt, make the last token."""
    _needs_accelerate()
    used = sorted({place for place in device_map.values() if isinstance(place, int)})
    return tried(lambda: _Trial(source, device_map, workload, used), machine)


def _needs_accelerate() -> None:
    try:
        import accelerate  # noqa: F401 # transformers asks for it when a device map is used
    except ImportError:
        raise UsageError(Phrase("place.no-accelerate")) from None


def _places_of(model: Any) -> dict[str, Place]:
    """The map that a loaded model carries; one without any is on a single device."""
    places = getattr(model, "hf_device_map", None) or {"": next(model.parameters()).device}
    found: dict[str, Place] = {}
    for name, place in places.items():
        text = str(place).removeprefix("cuda:")
        found[name] = int(text) if text.isdecimal() else text
    return found


class _Trial(Trial):
    """One model on one machine."""

    phases = ("load", "prompt", "last_token")
    packages = ("torch", "transformers", "accelerate")

    def __init__(
        self,
        source: ModelSource,
        device_map: Mapping[str, Place] | None,
        workload: Workload,
        gpus: Iterable[int],
    ) -> None:
        """Without a map the libraries choose one, which is then the trial's."""
        super().__init__(device_map or {}, gpus)
        self.source = source
        self.workload = workload
        self._automatic = device_map is None
        self._folder = ""

    @contextlib.contextmanager
    def around(self) -> Iterator[None]:
        """A folder with the model's configuration, and quiet libraries."""
        with tempfile.TemporaryDirectory() as folder, quiet():
            Path(folder, "config.json").write_text(config_text(self.source), "utf-8")
            self._folder = folder
            yield

    def parts(self, virtual: VirtualMachine) -> Iterator[None]:
        """Load, read the prompt, make the last token."""
        import transformers

        release = tuple(int(part) for part in transformers.__version__.split(".")[:2])
        named = "dtype" if release >= _NAMED_DTYPE else "torch_dtype"
        family: Any = model_class(self.source) or transformers.AutoModelForCausalLM
        model = family.from_pretrained(
            self._folder,
            device_map="auto" if self._automatic else dict(self.device_map),
            offload_folder=str(Path(self._folder, "offload")),
            **{named: self.source.dtype},
        ).eval()
        yield
        if self._automatic:
            self.device_map = _places_of(model)
        virtual.keep_values(self.workload.nbytes)  # not before: weights of that size need none
        first = next((place for place in self.device_map.values() if isinstance(place, int)), None)
        passes = Passes(model, self.workload, "cpu" if first is None else f"cuda:{first}")
        for step in (passes.prompt, passes.last):
            step()
            yield
