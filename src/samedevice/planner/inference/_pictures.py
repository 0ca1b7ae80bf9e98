"""Pictures for a model, made of its configuration alone: pixels, and their places in the prompt.

Must guarantee: the shapes are those which the processor of the model makes of pictures of this size. For a
model that is in no row of the table no picture is made, and it is said so: a plan for text alone would show
too little memory.
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

IMAGE_SIZE = (1024, 1024)
"""Width and height of a picture where none is asked for and the model takes any."""
_SCALED_BY_PROCESSOR = ("clip_vision_model", "siglip_vision_model")
"""Vision towers for which the processor scales every picture to one size."""


@dataclass(frozen=True, slots=True)
class Pictures:
    """The pictures of each sequence."""

    count: int
    width: int
    height: int
    """Pixels, after the processor has scaled the picture."""
    tokens: int
    """Placeholders of one picture in the prompt."""
    placeholder: int
    border: tuple[int, ...]
    """Tokens before and behind a picture: two, or none."""
    pixels: tuple[int, ...]
    """Shape of the pixels of one picture."""
    grid: tuple[int, int, int] | None = None
    """Patches of a picture in time, height and width, for a model that is told them."""

    @property
    def length(self) -> int:
        """Tokens of a prompt that the pictures of a sequence take."""
        return self.count * (self.tokens + len(self.border))

    def nbytes(self, batch: int) -> int:
        """Bytes of all pixels, which whoever calls `generate` holds."""
        return batch * self.count * math.prod(self.pixels) * 4

    def check(self, context: int) -> None:
        """Raises UsageError for a prompt that is shorter than its pictures and one token of text."""
        if context <= self.length:
            raise UsageError(
                Phrase("place.short-prompt", images=self.count, tokens=self.length, context=context)
            )

    def inputs(self, batch: int, context: int, device: str, accepted: Mapping[str, Any]) -> dict[str, Any]:
        """What the processor would make of pictures and text: arguments of `generate`.

        Args:
            batch: sequences.
            context: tokens of each, with those of the pictures.
            device: where they are to be.
            accepted: arguments of the model's `forward`.
        """
        import torch

        text = 0 if self.placeholder else 1
        before, behind = (self.border[:1], self.border[1:]) if self.border else ((), ())
        one = [*before, *[self.placeholder] * self.tokens, *behind]
        ids = torch.tensor([one * self.count + [text] * (context - self.length)] * batch)
        images = batch * self.count
        made: dict[str, torch.Tensor] = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
        # A processor hands over pixels in float32, whatever type the weights have.
        made["pixel_values"] = torch.zeros(images * self.pixels[0], *self.pixels[1:])
        if self.grid is not None:
            made["image_grid_thw"] = torch.tensor([self.grid] * images)
        for name in ("mm_token_type_ids", "token_type_ids"):
            if name in accepted:
                made[name] = (ids == self.placeholder).int()
                break
        return {name: tensor.to(device) for name, tensor in made.items()}


def pictures_of(config: Any, workload: Workload) -> Pictures | None:
    """The pictures of a workload for a model with this configuration; None where none are asked for.

    Raises UsageError for a model whose pictures cannot be made of its configuration.
    """
    if not workload.images:
        return None
    if workload.images < 0 or min(workload.image_size or IMAGE_SIZE) < 1:
        raise UsageError(Phrase("place.pictures"))
    make = _KINDS.get(str(config.model_type))
    made = None if make is None else make(config, workload.images, workload.image_size or IMAGE_SIZE)
    if made is None:
        tower = getattr(getattr(config, "vision_config", None), "model_type", "-")
        raise UsageError(
            Phrase(
                "place.no-pictures", kind=str(config.model_type), tower=str(tower), known=", ".join(_KINDS)
            )
        )
    return made


def _of_any_size(config: Any, count: int, size: tuple[int, int]) -> Pictures:
    """For a model that cuts a picture of any size into patches (NaViT)."""
    vision = config.vision_config
    patch, merge = vision.patch_size, vision.spatial_merge_size
    unit = patch * merge
    width, height = (max(round(side / unit), 1) * unit for side in size)
    grid = (1, height // patch, width // patch)
    channels = getattr(vision, "in_channels", None) or getattr(vision, "in_chans", 3)
    patches = grid[1] * grid[2]
    return Pictures(
        count,
        width,
        height,
        patches // merge**2,
        config.image_token_id,
        (config.vision_start_token_id, config.vision_end_token_id),
        (patches, channels * vision.temporal_patch_size * patch**2),
        grid,
    )


def _of_one_size(config: Any, count: int, _: tuple[int, int]) -> Pictures | None:
    """For LLaVA: each patch is a token, and the first one of a class token where the model keeps it."""
    vision = config.vision_config
    if vision.model_type not in _SCALED_BY_PROCESSOR:
        return None
    side = vision.image_size
    whole = config.vision_feature_select_strategy == "full" and vision.model_type == "clip_vision_model"
    tokens = (side // vision.patch_size) ** 2 + whole
    return Pictures(count, side, side, tokens, _placeholder(config), (), (1, 3, side, side))


def _pooled(config: Any, count: int, _: tuple[int, int]) -> Pictures:
    """For Gemma 3: the patches of a picture are pooled to a number of tokens."""
    side = config.vision_config.image_size
    border = (config.boi_token_index, config.eoi_token_index)
    return Pictures(
        count, side, side, config.mm_tokens_per_image, _placeholder(config), border, (1, 3, side, side)
    )


def _placeholder(config: Any) -> int:
    """The placeholder, whose name changed between releases of transformers."""
    return int(getattr(config, "image_token_id", None) or config.image_token_index)


_KINDS: Mapping[str, Callable[[Any, int, tuple[int, int]], Pictures | None]] = {
    "qwen2_vl": _of_any_size,
    "qwen2_5_vl": _of_any_size,
    "qwen3_vl": _of_any_size,
    "qwen3_vl_moe": _of_any_size,
    "llava": _of_one_size,
    "gemma3": _pooled,
}
"""By the `model_type` of a configuration."""
