"""The parts of a pipeline, each made from the type that the pipeline's constructor asks for.

Must guarantee: nothing is downloaded, and nothing hangs on the name of a class; what a part is, its base
classes say.
"""

from __future__ import annotations

import importlib
import inspect
import string
import tempfile
import types
import typing
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import EnumMeta
from pathlib import Path
from typing import Any

from samedevice.sweep._case import Untried
from samedevice.sweep._small import at_most
from samedevice.sweep._tiny import plain_model, tiny, tiny_part, tokens

_LENGTH = 77
"""Most tokens of a text."""
_UNKNOWN, _PAD = "<unk>", "<pad>"
_PIECES = (
    *tokens(),
    *(_UNKNOWN, _PAD, "</s>", "<s>", "<|endoftext|>", "<|startoftext|>", "[UNK]", "[PAD]", "[CLS]"),
    *("[SEP]", "[MASK]", "<bos>", "<eos>", "<mask>", "\u0120", "\u2581"),
    *(chr(code) for code in range(33, 127)),
    *(f"{chr(code)}</w>" for code in range(33, 127)),
)
_TEMPLATE = (
    "{% for m in messages %}{% if m['content'] is string %}{{ m['content'] }}{% else %}"
    "{% for c in m['content'] %}{{ c['text'] if 'text' in c else '' }}{% endfor %}{% endif %}{% endfor %}"
)
_MOST_PARAMETERS = 20_000_000


@dataclass(slots=True)
class Part:
    """One argument of a pipeline's constructor, and how it is made."""

    name: str
    make: Callable[[Mapping[str, Any]], Any]
    values: dict[str, Any] = field(default_factory=dict)
    """What a model is made of; empty for what has no sizes."""
    optional: bool = False
    """Whether the pipeline does without it."""

    def build(self) -> Any:
        """A fresh one."""
        return self.make(self.values)


def parts_of(pipeline: Any) -> list[Part]:
    """A part for each argument. Raises `Untried` with what cannot be made."""
    hints = typing.get_type_hints(pipeline.__init__)
    optional = set(getattr(pipeline, "_optional_components", ()))
    made: list[Part] = []
    for each in arguments_of(pipeline):
        part = _part(each.name, hints.get(each.name), each.default)
        part.optional = each.default is None and (each.name in optional or not optional)
        made.append(part)
    return made


def _part(name: str, hint: Any, default: Any) -> Part:
    reason = f"nothing is known to give for {name}"
    for wanted in _classes(hint):
        try:
            part = _of_class(name, wanted)
        except Exception as error:  # anything: it is foreign code
            reason = f"{name}: {type(error).__name__}: {error}"
            continue
        if part is not None:
            return part
    if default is not inspect.Parameter.empty:
        return Part(name, lambda _: default, optional=True)
    raise Untried(reason[:300])


def _classes(hint: Any) -> Iterator[Any]:
    """The classes that an annotation names, one after the other."""
    if isinstance(hint, EnumMeta):  # a choice of classes of the library by their names
        library = importlib.import_module(hint.__module__.partition(".")[0])
        names = [str(name) for name in hint.__members__]
        yield from (getattr(library, name) for name in names if hasattr(library, name))
    elif typing.get_origin(hint) in (typing.Union, types.UnionType):
        for choice in typing.get_args(hint):
            yield from _classes(choice)
    elif isinstance(hint, type) and hint not in _PLAIN:
        yield hint


_PLAIN = {bool, int, float, str, type(None), list, tuple, dict}


def _of_class(name: str, wanted: Any) -> Part | None:
    """How one of a class is made; None for a class of which nothing is known."""
    import torch

    bases = {each.__name__ for each in wanted.__mro__}
    if "SchedulerMixin" in bases:
        steps = wanted if hasattr(wanted, "set_timesteps") else _any_below(wanted, "set_timesteps")
        return Part(name, lambda _: steps(**_needed(steps)))
    if "PreTrainedTokenizerBase" in bases or (hasattr(wanted, "register") and "okeniz" in wanted.__name__):
        _tokenizer(wanted)
        return Part(name, lambda _: _tokenizer(wanted))
    if "ProcessorMixin" in bases:
        return Part(name, lambda _: _processor(wanted))
    if bases & {"ImageProcessingMixin", "FeatureExtractionMixin", "BaseImageProcessor"}:
        wanted()
        return Part(name, lambda _: wanted())
    if wanted.__name__ == "PreTrainedModel":  # any will do
        wanted = getattr(importlib.import_module("transformers"), plain_model())
    if "PreTrainedModel" in bases:
        concrete = _concrete(wanted)
        values = tiny(concrete.config_class().to_dict())
        return Part(
            name, lambda changed: _model(lambda: concrete(concrete.config_class.from_dict(changed))), values
        )
    if issubclass(wanted, torch.nn.Module):
        defaults = _defaults(wanted)
        part = Part(name, lambda changed: _model(lambda: wanted(**changed)), tiny_part(defaults))
        try:
            part.build()
        except Exception:  # its levels cannot be fewer, or something else is missing
            part.values = tiny_part(defaults, levels=True)
        return part
    if hasattr(wanted, "config_name"):  # a part with settings and no weights, such as a guider
        return Part(name, lambda _: wanted())
    return None


def _any_below(base: Any, method: str) -> Any:
    """The first public class of the library that stands on a base and has a method."""
    library = importlib.import_module(base.__module__.partition(".")[0])
    for name in dir(library):
        found = getattr(library, name, None)
        if isinstance(found, type) and issubclass(found, base) and hasattr(found, method):
            return found
    raise Untried(f"nothing stands on {base.__name__}")


def _concrete(wanted: Any) -> Any:
    """The class itself, or the first one of its module that stands on it and has a `forward`."""
    if "forward" in vars(wanted) or wanted.forward.__name__ != "_forward_unimplemented":
        return wanted
    module = importlib.import_module(wanted.__module__)
    return next(
        each
        for each in vars(module).values()
        if isinstance(each, type) and issubclass(each, wanted) and "forward" in vars(each)
    )


def _model(make: Callable[[], Any]) -> Any:
    import torch

    torch.manual_seed(0)
    with at_most(_MOST_PARAMETERS):
        return make().eval()


def arguments_of(wanted: Any) -> list[inspect.Parameter]:
    """What its constructor takes by name."""
    given = list(inspect.signature(wanted.__init__).parameters.values())[1:]
    return [each for each in given if each.kind not in (each.VAR_KEYWORD, each.VAR_POSITIONAL)]


def _defaults(wanted: Any) -> dict[str, Any]:
    return {each.name: _filled(each) for each in arguments_of(wanted)}


def _needed(wanted: Any) -> dict[str, Any]:
    """Numbers for what has no default."""
    return {each.name: _filled(each) for each in arguments_of(wanted) if each.default is each.empty}


def _filled(parameter: inspect.Parameter) -> Any:
    """Its default, or a width where it is a number that has none."""
    if parameter.default is not parameter.empty:
        return parameter.default
    if parameter.annotation in (int, "int"):
        return 64
    if parameter.annotation in (float, "float"):
        return 1.0
    raise Untried(f"has no default for {parameter.name}")


def _tokenizer(wanted: Any) -> Any:
    """One whose words are letters."""
    numbers = {piece: place for place, piece in enumerate(_PIECES)}
    scores = [(piece, -1.0) for piece in _PIECES]
    if not hasattr(wanted, "pad_token"):  # a choice of tokenizers, of which any will do
        return plain_tokenizer()
    first: Exception | None = None
    forms: tuple[dict[str, Any], ...] = (
        {"vocab": numbers, "merges": []}, {"vocab": numbers}, {"vocab": scores}, {}, {"vocab_file": _letters}
    )  # fmt: skip
    for values in forms:
        try:
            given = {name: value() if callable(value) else value for name, value in values.items()}
            made = wanted(**given, model_max_length=_LENGTH)
            made("a")
        except Exception as error:  # it wants another form
            first = first or error
            continue
        if made.pad_token is None:
            made.pad_token = made.eos_token or _PAD
        made.add_tokens(list(tokens()), special_tokens=True)
        made.chat_template = _TEMPLATE
        return made
    raise first or Untried("no vocabulary")


def _letters() -> str:
    """A file of a vocabulary of letters, as SentencePiece has it."""
    trainer = importlib.import_module("sentencepiece").SentencePieceTrainer
    path = Path(tempfile.mkdtemp(prefix="samedevice-sweep-")) / "tokenizer.model"
    with path.open("wb") as file:
        letters = iter([" ".join(string.ascii_letters)])
        trainer.train(sentence_iterator=letters, model_writer=file, model_type="char", minloglevel=2)
    return str(path)


def plain_tokenizer() -> Any:
    """A tokenizer whose words are letters, of no model's class."""
    tokenizers = importlib.import_module("tokenizers")
    numbers = {piece: place for place, piece in enumerate(_PIECES)}
    letters = tokenizers.Tokenizer(tokenizers.models.BPE(numbers, [], unk_token=_UNKNOWN))
    letters.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    made = importlib.import_module("transformers").PreTrainedTokenizerFast(
        tokenizer_object=letters, unk_token=_UNKNOWN, pad_token=_PAD, eos_token="</s>", bos_token="<s>",
        model_max_length=_LENGTH,
    )  # fmt: skip
    made.add_tokens(list(tokens()), special_tokens=True)
    made.chat_template = _TEMPLATE
    return made


def _processor(wanted: Any) -> Any:
    """One of a text and pictures or sounds, of the parts that stand in its folder."""
    given: dict[str, Any] = {}
    for name in inspect.signature(wanted.__init__).parameters:
        if "tokenizer" in name:
            given[name] = plain_tokenizer()
        elif "image_processor" in name:
            given[name] = _listed(wanted, "image_processing")
        elif "video_processor" in name:
            given[name] = _listed(wanted, "video_processing")
        elif "feature_extractor" in name:
            given[name] = _listed(wanted, "feature_extraction")
        elif name == "chat_template":
            given[name] = _TEMPLATE
    return wanted(**given)


def _listed(processor: Any, kind: str) -> Any:
    """What the library lists for the models of the processor's folder: a class that needs nothing else."""
    auto = importlib.import_module(f"transformers.models.auto.{kind}_auto")
    tables = [each for name, each in vars(auto).items() if name.endswith("_MAPPING_NAMES")]
    folder = processor.__module__.split(".")[-2]
    transformers = importlib.import_module("transformers")
    for table in tables:
        names = table.get(folder)
        for name in names.values() if isinstance(names, Mapping) else (names,):
            try:
                return getattr(transformers, name)()
            except Exception:  # a form of it that wants another package
                continue
    raise Untried(f"no {kind} is listed for {folder}")
