"""The two passes that decide what inference needs: a prompt is read, and the last token is made.

Must guarantee: what runs is `generate` of transformers. Between the two passes the cache is lengthened by
its own `update`, as the tokens between would have done one by one.
"""

from __future__ import annotations

import contextlib
import inspect
import logging
import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from samedevice.errors import UsageError
from samedevice.messages import Phrase
from samedevice.planner.inference._blocks import Workload
from samedevice.planner.inference._pictures import pictures_of
from samedevice.planner.inference._sounds import sound_of

if TYPE_CHECKING:
    import torch

_CACHE_ARGUMENTS = ("past_key_values", "cache_params")
"""What transformers calls the cache that a model is given."""
_TEXT_OR_PICTURES = ("input_ids", "pixel_values")
"""Main inputs that can be made of a configuration, besides sound."""
_DEEPEST = 6


class Passes:
    """Prompt and last token of a model whose inputs are on `device`.

    Of an encoder-decoder model the prompt is what its encoder reads, and the new tokens are its decoder's.
    Raises UsageError for a model that reads something else than text, pictures and sound.
    """

    def __init__(self, model: Any, workload: Workload, device: str) -> None:
        self.model = model
        self.workload = workload
        self.device = device
        reads = str(getattr(model, "main_input_name", "input_ids"))
        self.sound = sound_of(model.config, reads, workload)
        if self.sound is None and reads not in _TEXT_OR_PICTURES:
            architecture = type(model).__name__
            raise UsageError(Phrase("place.other-input", architecture=architecture, argument=reads))
        self.pictures = pictures_of(model.config, workload)
        if self.pictures is not None:
            self.pictures.check(workload.context)
        self.cache: Any = None
        self._encoded: Any = None
        """What the encoder made of the prompt, if there is one; `generate` holds it to its end."""
        self._cache_argument = _CACHE_ARGUMENTS[0]

    def prompt(self) -> None:
        """Read the prompts, and make one token of each.

        Where tuples of tensors come out, as up to transformers 4.45, the cache is the one that was given; so
        it is for decoders with an encoder, of which Whisper hands out a copy on another device.
        """
        handles = [self.model.register_forward_pre_hook(self._see_cache, with_kwargs=True)]
        if self.model.config.is_encoder_decoder:
            handles.append(self.model.get_encoder().register_forward_hook(self._see_encoded))
        try:
            made = self._generate(self._inputs(), 1)
        finally:
            for handle in handles:
                handle.remove()
        given, told = self.cache, getattr(made, "past_key_values", None)
        changed = isinstance(told, tuple) or self._encoded is not None
        kept = changed and next(parts_of(given), None) is not None
        self.cache = given if kept else told or given
        if next(parts_of(self.cache), None) is None:
            self.cache = None  # given to a model that keeps none

    def last(self) -> None:
        """Make the last token, with all before it in the cache."""
        work = self.workload
        if work.new_tokens < 2:
            return
        if self._encoded is not None and self._last_of_decoder():
            return
        if self._encoded is not None or not lengthen(self.cache, work.tokens - 1 - work.context):
            self._generate(self._inputs(), work.new_tokens)  # slower, and the same at its end
            return
        # Ids of tokens that the cache holds are not read again, be they of a picture.
        self._generate(self._text(work.tokens), 1, **{self._cache_argument: self.cache})

    def _last_of_decoder(self) -> bool:
        """The last token of an encoder-decoder model; False where its cache cannot be lengthened."""
        import torch
        from transformers import GenerationMixin

        decoders = getattr(self.cache, "self_attention_cache", None)
        if decoders is None or not lengthen(decoders, self.workload.new_tokens - 2):
            return False
        start = self.model.generation_config.decoder_start_token_id
        ids = torch.full(  # the first must be what `generate` would put there
            (self.workload.batch, decoders.get_seq_length() + 1),
            start if isinstance(start, int) else 0,
            dtype=torch.long,
            device=self.device,
        )
        self._generate(
            self._inputs(),
            1,
            GenerationMixin.generate,  # a class that has one of its own cuts long sound with it
            encoder_outputs=self._encoded,
            decoder_input_ids=ids,
            decoder_attention_mask=torch.ones_like(ids),  # tells that the cache holds all but the last
            past_key_values=self.cache,
        )
        return True

    @property
    def nbytes_beside_text(self) -> int:
        """Bytes of the pictures or the sound that the model is given."""
        batch = self.workload.batch
        if self.sound is not None:
            return self.sound.nbytes(batch, self.model.dtype.itemsize)
        return 0 if self.pictures is None else self.pictures.nbytes(batch)

    def _see_cache(self, _: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        for name in _CACHE_ARGUMENTS:
            if kwargs.get(name) is not None:
                self.cache, self._cache_argument = kwargs[name], name

    def _see_encoded(self, module: Any, args: Any, made: Any) -> None:
        self._encoded = made

    def _inputs(self) -> dict[str, Any]:
        """What the model is given at first."""
        work = self.workload
        if self.sound is not None:
            return self.sound.inputs(work.batch, self.device, self.model.dtype)
        if self.pictures is None:
            return self._text(work.context)
        accepted = inspect.signature(self.model.forward).parameters
        return self.pictures.inputs(work.batch, work.context, self.device, accepted)

    def _text(self, length: int) -> dict[str, Any]:
        import torch

        ids = torch.zeros(self.workload.batch, length, dtype=torch.long, device=self.device)
        return {"input_ids": ids, "attention_mask": torch.ones_like(ids)}

    def _generate(
        self,
        inputs: Mapping[str, Any],
        new_tokens: int,
        generate: Callable[..., Any] | None = None,
        **options: Any,
    ) -> Any:
        told = self.model.generation_config
        if self.model.config.is_encoder_decoder and told.decoder_start_token_id is None:
            options = {"decoder_start_token_id": 0, **options}  # which one it is changes no shape
        generate = generate or type(self.model).generate
        return generate(
            self.model,
            **inputs,
            max_new_tokens=new_tokens,
            min_new_tokens=new_tokens,
            do_sample=False,
            return_dict_in_generate=True,
            **options,
        )


def lengthen(cache: Any, count: int) -> bool:
    """Let every layer of a cache take so many more tokens; False for a cache that cannot be told to."""
    layers = getattr(cache, "layers", None)
    if not isinstance(layers, list) or not callable(getattr(cache, "update", None)):
        return _lengthen_older(cache, count)
    for index, layer in enumerate(layers if count > 0 else ()):
        keys, values = getattr(layer, "keys", None), getattr(layer, "values", None)
        if keys is None or values is None or keys.dim() != 4:
            continue  # a state that does not grow
        more = [each.new_empty(*each.shape[:2], count, each.shape[3]) for each in (keys, values)]
        cache.update(*more, index)
        indexed = getattr(layer, "indexer_keys", None)
        if indexed is not None:  # of sparse attention, which looks for the keys that matter by others
            cache.update_indexer(indexed.new_empty(indexed.shape[0], count, indexed.shape[2]), index)
    return True


def _lengthen_older(cache: Any, count: int) -> bool:
    """The same for the cache of transformers before 4.56, which grows by what it is given."""
    from transformers import DynamicCache

    keys, values = getattr(cache, "key_cache", None), getattr(cache, "value_cache", None)
    if type(cache) is not DynamicCache or not isinstance(keys, list) or not isinstance(values, list):
        return False
    for index, pair in enumerate(list(zip(keys, values, strict=True)) if count > 0 else ()):
        cache.update(*(each.new_empty(*each.shape[:2], count, each.shape[3]) for each in pair), index)
    return True


def parts_of(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], torch.Tensor]]:
    """Every tensor of a cache, with the way to it."""
    import torch

    if isinstance(value, torch.Tensor):
        yield path, value
    elif len(path) > _DEEPEST:
        return
    elif isinstance(value, (list, tuple)):
        for index, each in enumerate(value):
            yield from parts_of(each, (*path, index))
    elif isinstance(value, Mapping):
        for key, each in value.items():
            yield from parts_of(each, (*path, key))
    elif hasattr(value, "__dict__") and not isinstance(value, type):
        if isinstance(value, torch.nn.Module) and not hasattr(value, "get_seq_length"):
            return  # a layer; some releases of transformers have modules for caches
        yield from parts_of(vars(value), path)


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Inside, libraries neither warn nor draw progress bars: nobody asked them for advice."""
    from transformers.utils import logging as told

    level, bars = told.get_verbosity(), told.is_progress_bar_enabled()
    told.set_verbosity_error()  # type: ignore[no-untyped-call] # transformers has no types
    told.disable_progress_bar()  # type: ignore[no-untyped-call] # likewise
    others = [logging.getLogger(name) for name in ("accelerate", "torch", "huggingface_hub")]
    levels = [each.level for each in others]
    try:
        for each in others:
            each.setLevel(logging.ERROR)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for each, before in zip(others, levels, strict=True):
            each.setLevel(before)
        told.set_verbosity(level)
        if bars:
            told.enable_progress_bar()  # type: ignore[no-untyped-call] # likewise
