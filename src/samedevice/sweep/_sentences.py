"""sentence-transformers: its encoders, its modules behind one of them, and its losses, over one tiny model.

What is tried is a bench: an encoder that embeds texts, or an encoder with a loss that is called as the
library's trainer calls it. Over several GPUs the encoder is loaded by its own constructor, with
`model_kwargs={"device_map": ...}`, and the loss is moved to `model.device`, as the trainer does.
"""

from __future__ import annotations

import copy
import hashlib
import importlib
import inspect
import itertools
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from samedevice.sweep._case import Case, Given, Listed, Untried, saved
from samedevice.sweep._cuts import Cut, walk
from samedevice.sweep._inputs import Sizes, make
from samedevice.sweep._parts import arguments_of, plain_tokenizer
from samedevice.sweep._placing import inferred, module_sizes
from samedevice.sweep._small import reason_of
from samedevice.sweep._tables import read_table

_PACKAGE = "sentence_transformers"
_TABLE = "sentences.toml"
_WORDS = ("a red cat", "the dog on a mat", "one more text", "a b c")
_BATCH = 4
_CUTS = 6


class SentencesLibrary:
    """A target for each encoder, each module and each loss."""

    def prepare(self) -> None:
        """Import what all share."""
        for name in (_PACKAGE, "accelerate", "transformers.models.bert.modeling_bert"):
            importlib.import_module(name)
        _folder()

    def bring(self, name: str) -> None:
        """Import the package of a class."""
        importlib.import_module(name.partition(":")[0])

    def targets(self) -> Iterator[Listed]:
        """Encoders, then what the packages of their modules and losses list."""
        seen: set[Any] = set()
        for kind, encoder in _encoders().items():
            yield _listed(f"{_PACKAGE}.{kind}", encoder)
            for folder in ("modules", "losses"):
                module = importlib.import_module(f"{_PACKAGE}.{kind}.{folder}")
                for name in module.__all__:
                    found = getattr(module, name)
                    if found not in seen and _is_tried(found, folder):
                        seen.add(found)
                        yield _listed(module.__name__, found)

    def case(self, name: str, actions: tuple[str, ...]) -> Case:
        """A bench that ran on the CPU. Raises `Untried` with the first reason."""
        place, _, kind = name.partition(":")
        found = getattr(importlib.import_module(place), kind)
        encoder_class = _encoders()[place.split(".")[1]]
        if place.endswith(".losses"):
            return _of_loss(encoder_class, found)
        folders = _with_module(encoder_class, found) if place.endswith(".modules") else iter([_folder()])
        reason = "it stands nowhere in an encoder"
        for folder in folders:
            try:
                bench = _Bench(encoder_class(folder, device="cpu"), None)
                bench(_texts(1))
            except Exception as error:  # anything: it is foreign code
                reason = reason_of(error)
                continue
            return _case(encoder_class, folder, lambda encoder: None, {"texts": _texts(1)}, {})
        raise Untried(f"run: {reason}")


def _listed(place: str, found: Any) -> Listed:
    source = Path(inspect.getfile(found)).read_bytes()
    return Listed(f"{place}:{found.__name__}", hashlib.sha256(source).hexdigest()[:16])


@cache
def _encoders() -> dict[str, Any]:
    """The encoder of each folder of the package: the public class that stands on the base of all."""
    package = importlib.import_module(_PACKAGE)
    base = importlib.import_module(f"{_PACKAGE}.base.model").BaseModel
    found = {}
    for name in package.__all__:
        each = getattr(package, name)
        if isinstance(each, type) and issubclass(each, base):
            found[each.__module__.split(".")[1]] = each
    return found


def _is_tried(found: Any, folder: str) -> bool:
    import torch

    if not (isinstance(found, type) and issubclass(found, torch.nn.Module)) or inspect.isabstract(found):
        return False
    return folder == "modules" or "model" in inspect.signature(found.__init__).parameters


@cache
def _folder() -> str:
    """A checkpoint that every encoder can be loaded from: a masked language model of two blocks."""
    transformers = importlib.import_module("transformers")
    tokenizer = plain_tokenizer()
    config = transformers.BertConfig(
        vocab_size=len(tokenizer), hidden_size=32, num_hidden_layers=2, num_attention_heads=2,
        intermediate_size=32, max_position_embeddings=96,
    )  # fmt: skip
    folder = tempfile.mkdtemp(prefix="samedevice-sweep-")
    importlib.import_module("torch").manual_seed(0)
    transformers.BertForMaskedLM(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def _texts(columns: int) -> list[list[str]]:
    return [[_WORDS[(row + column) % len(_WORDS)] for row in range(_BATCH)] for column in range(columns)]


def _lists(count: int) -> list[Any]:
    """Texts, and to each a list of others."""
    return [list(_WORDS[:_BATCH]), [[f"{word} {number}" for number in range(count)] for word in _WORDS]]


def _bench_class() -> Any:
    import torch

    class Bench(torch.nn.Module):
        """An encoder, alone or with a loss."""

        def __init__(self, encoder: Any, loss: Any) -> None:
            super().__init__()
            self.encoder = encoder
            self.criterion = loss

        @property
        def device(self) -> Any:
            return self.encoder.device

        def forward(self, texts: Sequence[Any], labels: Any = None) -> Any:
            if self.criterion is None:
                return SimpleNamespace(loss=None, made=_embedded(self.encoder, texts))
            made = self.criterion(_features(self.encoder, texts), labels)
            parts = list(made.values()) if isinstance(made, Mapping) else [made]
            return SimpleNamespace(loss=sum(parts[1:], parts[0]))

    return Bench


def _Bench(encoder: Any, loss: Any) -> Any:  # its class needs torch, which is imported late
    return _bench_class()(encoder, loss)


def _embedded(encoder: Any, texts: Sequence[Any]) -> Any:
    """As a user calls it: texts are embedded, pairs of them are scored."""
    if hasattr(encoder, "encode"):
        return encoder.encode(list(texts[0]), show_progress_bar=False)
    return encoder.predict([[each, each] for each in texts[0]], show_progress_bar=False)


def _features(encoder: Any, texts: Sequence[Any]) -> list[Any]:
    """As the trainer's collator and its trainer make them; a loss over pairs gets the texts."""
    if not hasattr(encoder, "encode"):
        return list(texts)
    columns = [encoder.preprocess(list(column)) for column in texts]
    return [
        {name: each.to(encoder.device) if hasattr(each, "to") else each for name, each in column.items()}
        for column in columns
    ]


def _given(found: Any, encoder: Any) -> Given:
    """What its constructor takes of the table, but for the model."""
    known = read_table(_TABLE)
    always = set(known["always"]["names"])
    given: Given = {}
    for parameter in arguments_of(found):
        name, needed = parameter.name, parameter.default is parameter.empty
        if name in known["values"] and (needed or name in always):
            given[name] = _value(known["values"][name], encoder)
        elif needed and name not in ("model", "loss"):
            raise Untried(f"nothing is known to give for {name}")
    return given


def _value(value: Any, encoder: Any) -> Any:
    if not isinstance(value, Mapping) or "make" not in value:
        return copy.deepcopy(value)
    if value["make"] == "tokenizer":
        return plain_tokenizer()
    if value["make"] == "encoder":
        return copy.deepcopy(encoder)
    raise AssertionError(f"{_TABLE} makes nothing of {value['make']!r}")


def _losses_beside(found: Any) -> Iterator[Any]:
    """The other losses of the same encoder."""
    package = importlib.import_module(found.__module__.rpartition(".")[0])
    for name in package.__all__:
        each: Any = getattr(package, name)
        if each is not found and _is_tried(each, "losses"):
            yield each


def _wants(found: Any) -> set[str]:
    return {each.name for each in arguments_of(found) if each.default is each.empty}


def _ways(found: Any) -> Iterator[Callable[[Any], Any]]:
    """How a loss is made of an encoder: alone, around another loss, or inside of one that takes a loss."""

    def alone(encoder: Any) -> Any:
        return found(encoder, **_given(found, encoder))

    def around(inner: Any) -> Callable[[Any], Any]:
        return lambda encoder: found(
            encoder, **{**_given(found, encoder), "loss": inner(encoder, **_given(inner, encoder))}
        )

    def inside(outer: Any) -> Callable[[Any], Any]:
        return lambda encoder: outer(encoder, **{**_given(outer, encoder), "loss": alone(encoder)})

    if "loss" not in _wants(found):
        yield alone
    plain = [each for each in _losses_beside(found) if _wants(each) == {"model"}]
    if "loss" in inspect.signature(found.__init__).parameters:
        yield from map(around, plain)
    elif _wants(found) == {"model"}:
        takers = [each for each in _losses_beside(found) if "loss" in _wants(each)]
        yield from map(inside, takers)


def _of_loss(encoder_class: Any, found: Any) -> Case:
    sizes = Sizes(SimpleNamespace(), "", _TABLE)
    reason = ""
    for settings in ({}, {"num_labels": 1}, {"num_labels": 2}):
        try:
            folder = saved(encoder_class(_folder(), device="cpu", **settings))
        except TypeError:  # this encoder has no such argument
            break
        for way, form in itertools.product(_ways(found), read_table(_TABLE)["form"]):
            texts = _lists(form["lists"]) if "lists" in form else _texts(form["columns"])
            labels: Any = make(form["labels"], sizes) if "labels" in form else None
            if "lists" in form:
                labels = [labels.clone() for _ in range(_BATCH)]
            try:
                encoder = encoder_class(folder, device="cpu")
                made = _Bench(encoder, way(encoder))(texts, labels)
                made.loss.backward()
            except Exception as error:  # anything: it is foreign code
                reason = reason or reason_of(error)
                continue
            return _case(
                encoder_class, folder, _as_the_trainer_moves_it(way), {"texts": texts}, {"labels": labels}
            )
    raise Untried(f"run: {reason}")


def _as_the_trainer_moves_it(way: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """By the trainer's own method, so that a release which mends it is seen to."""
    try:
        trainer = importlib.import_module(f"{_PACKAGE}.base.trainer").BaseTrainer
    except (ImportError, AttributeError):  # a release that has no such base
        return lambda encoder: way(encoder).to(encoder.device)
    return lambda encoder: trainer.prepare_loss(SimpleNamespace(), way(encoder), encoder)


def _with_module(encoder_class: Any, found: Any) -> Iterator[str]:
    """Checkpoints of encoders in which the module stands in one place after another."""
    for place in (1, 2, 0, -1):
        try:
            encoder = encoder_class(_folder(), device="cpu")
            modules = list(encoder)
            made = found(**_given(found, encoder))
            chain = [made] if place < 0 else [*modules[:place], made, *modules[place or 1 :]]
            yield saved(encoder_class(modules=chain, device="cpu"))
        except Exception:  # it does not stand there
            continue


def _case(
    encoder_class: Any, folder: str, with_loss: Callable[[Any], Any], inputs: Given, labels: Given
) -> Case:
    def bench(encoder: Any) -> Any:
        return _Bench(encoder, with_loss(encoder)).eval()

    def loaded(**settings: Any) -> Any:
        return bench(encoder_class(folder, model_kwargs=settings))

    case = Case(bench(encoder_class(folder, device="cpu")), inputs, labels, "tiny")
    case.folder = folder
    base = importlib.import_module("transformers").PreTrainedModel
    inner = [each for each in case.model.encoder.modules() if isinstance(each, base)]
    case.offloads = {}
    if inner:
        case.cuts = lambda gpus: _cuts(inner[0], gpus)
        case.spread = lambda _, device_map: loaded(device_map=device_map)
        case.load = lambda mode, memory: loaded(device_map=mode, max_memory=dict(memory))
    return case


def _cuts(model: Any, gpus: int) -> Iterator[Cut]:
    """The maps that the library's own placement makes of the model inside."""
    placement = importlib.import_module("accelerate.utils.modeling")
    total = module_sizes(placement, model)[""]

    def infer(memory: Mapping[Any, int]) -> dict[str, Any]:
        return inferred(placement, model, memory, sorted(model._no_split_modules or ()))

    return iter(walk(total, infer, _CUTS) if gpus > 1 else ())
