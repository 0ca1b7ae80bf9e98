"""Sound for a model, made of its configuration alone.

Must guarantee: the shape is that which the feature extractor of the model makes of sound of this length. For
a model that is in no row of the table none is made, and it is said so.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from samedevice.errors import UsageError
from samedevice.messages import Phrase
from samedevice.planner.inference._blocks import Workload

if TYPE_CHECKING:
    import torch

SECONDS = 30
"""Sound of a sequence where no length is asked for; a window of Whisper."""
_SAMPLES, _FRAMES = 16_000, 100
"""Of a second: what all these models are given; a frame has 10 ms (`hop_length` 160 of the extractors)."""


_ARGUMENTS = ("input_features", "input_values")


@dataclass(frozen=True, slots=True)
class Sound:
    """What one sequence is given."""

    argument: str
    """Of `generate`."""
    seconds: int
    shape: tuple[int, ...]

    def nbytes(self, batch: int, itemsize: int) -> int:
        """Bytes of it, which whoever calls `generate` holds."""
        return batch * math.prod(self.shape) * itemsize

    def inputs(self, batch: int, device: str, dtype: torch.dtype) -> dict[str, Any]:
        """Arguments of `generate`, in the type of the weights, as a script must bring them to it."""
        import torch

        return {self.argument: torch.zeros(batch, *self.shape, device=device, dtype=dtype)}


def reads_sound(family: Any) -> bool:
    """Whether models of this class read sound in the place of a prompt."""
    return getattr(family, "main_input_name", None) in _ARGUMENTS


def sound_of(config: Any, argument: str, workload: Workload) -> Sound | None:
    """The sound of a workload for a model that reads this argument first; None for one that reads none.

    Raises UsageError for a model whose sound cannot be made of its configuration.
    """
    if argument not in _ARGUMENTS:
        return None
    if workload.seconds is not None and workload.seconds < 1:
        raise UsageError(Phrase("place.seconds"))
    kind = str(config.model_type)
    shape = _SHAPES.get(kind)
    if shape is None:
        raise UsageError(Phrase("place.no-sound", kind=kind, argument=argument, known=", ".join(_SHAPES)))
    if kind == "whisper":
        _check_window(config, workload.seconds)
    seconds = workload.seconds or SECONDS
    return Sound(argument, seconds, shape(config, seconds))


def _frames_of_window(config: Any) -> int:
    """Whisper reads windows of 30 s, however short the sound is; its encoder halves the frames."""
    return 2 * int(config.max_source_positions)


def _check_window(config: Any, seconds: int | None) -> None:
    frames = _frames_of_window(config)
    if seconds is not None and seconds * _FRAMES > frames:
        raise UsageError(Phrase("place.window", seconds=frames // _FRAMES))


def _half_frames(config: Any, seconds: int) -> tuple[int, ...]:
    """Two frames of 80 bins side by side (`stride` of the extractor of SeamlessM4T)."""
    return seconds * _FRAMES // 2, config.feature_projection_input_dim


def _frames_of_encoder(config: Any, seconds: int) -> tuple[int, ...]:
    return seconds * _FRAMES, config.encoder_config.num_mel_bins


def _samples(config: Any, seconds: int) -> tuple[int, ...]:
    return (seconds * _SAMPLES,)


_SHAPES: Mapping[str, Callable[[Any, int], tuple[int, ...]]] = {
    "whisper": lambda config, _: (config.num_mel_bins, _frames_of_window(config)),
    "speech_to_text": lambda config, seconds: (
        seconds * _FRAMES,
        config.input_feat_per_channel * config.input_channels,
    ),
    "seamless_m4t": _half_frames,
    "seamless_m4t_v2": _half_frames,
    "canary": _frames_of_encoder,
    "cohere_asr": _frames_of_encoder,
    "moonshine": _samples,
    "speecht5": _samples,
}
"""Of one sequence, by the `model_type` of a configuration."""
