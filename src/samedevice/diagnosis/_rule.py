"""What a rule is: a code, a page, and what points to it in a paste and in an event.

A rule lives in one file of `rules/`. Its module docstring is its page in English; `signs` weigh what a
pasted text shows, `detect` what the runtime saw. Weights of both are on one scale: 2 is a hint, 4 a good
reason, 6 a strong one, 8 leaves nothing to guess.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from samedevice.diagnosis._failure import Failure
from samedevice.diagnosis.paste import REMOTE_CODE, Frame, Pattern, Report, launch_in
from samedevice.events import EventKind
from samedevice.messages import Language, Phrase, Value, short_operator

HEADINGS: Mapping[Language, tuple[str, ...]] = {
    "en": (
        "What happens",
        "Why it fails",
        "Example",
        "Use instead",
        "Fix safety",
        "Known limits",
        "References",
    ),
    "zh": ("发生了什么", "为什么会失败", "示例", "应当这样写", "修复是否安全", "已知局限", "参考"),
}
"""What each page has, in this order, by its language."""


MAPPED = (
    r"(?<!no )(?<!without )(?<!without a )(?<!not set )(?<!not use )(?<!没有)(?<!不用)(?<!没用)"
    r"\bdevice[_ ]map\b(?!['\"]?\s?[=:]\s?(?:None|\{\s?['\"]{2}))"
)
"""A map of the model, but for one that puts all of it on the rank's own GPU."""
SEVERAL_GPUS = (
    r"cuda:[1-9]|\b(?:GPU|card|rank) ?#?[1-9]\b|\b(?:GPUs|cards)\b|\b(?:second|other|another) (?:GPU|card)\b"
    r"|multi-?gpu|device_map|(?:多|两|双)(?:张|块)?卡|第二(?:张|块)"
)
"""Words that tell of more than one GPU."""
_OLD = Pattern(
    r"but device \d{1,3} does not equal \d|^Expected object of (?:device type|backend)"
    r"|^Tensor for (?:argument )?#?|^expected device \w{3,4}:\d{1,3} but got"
)
"""Words of torch before 1.8."""
_LAYERS = Pattern(r"(?:^|_)(?:add)?mm(?:_out)?$|linear|conv|norm(?!al)|(?:gru|lstm|rnn)_cell")
"""Operators by which a layer applies its weight."""
_WEIGHTS = ("mat2", "weight", "running_mean", "running_var", "input_bias", "hidden_bias")
_INPUTS = ("mat1", "self", "input")
"""How messages call the sides of a layer; `self` of a product with a bias is the bias."""
_WRITTEN_OUT = Pattern(r"\b\w{0,8}(?:matmul|mm|einsum)\(|\S @ \S")
_OF_TORCH = Pattern(r"torch[/\\]nn[/\\](?:functional|modules[/\\]\w+)\.py$")
"""Where torch writes a layer's own operator; the line tells of nobody's tensors."""
OF_LAYER = Pattern(r"torch[/\\]nn[/\\]modules[/\\](?!module\b|container\b)\w+\.py$")
"""Where a layer of torch applies its weight; no container, and not what calls it."""
_LONGEST_SHOWN = 80
Look = Callable[[Report], Phrase | None]
"""Something about a paste, and why it counts."""
Texts = Mapping[Language, str]
"""One sentence in every language that its file has."""


@dataclass(frozen=True, slots=True)
class Sign:
    """Weighs in when all of its looks find something; `certain` when it alone settles the cause."""

    weight: float
    looks: tuple[Look, ...]
    certain: bool = False
    spoken: bool = False
    """Whether the kind of the message is one of its looks."""

    def read(self, report: Report) -> Phrase | None:
        """The first reason, when every look finds one."""
        if not all(look.may(report) for look in self.looks if isinstance(look, Said)):
            return None
        reasons = []
        for look in self.looks:
            reason = look(report)
            if reason is None:
                return None
            reasons.append(reason)
        return reasons[-1]


@dataclass(frozen=True, slots=True)
class Hint:
    """What a detector makes of an event."""

    weight: float
    reason: Phrase
    guilty: str | None = None
    """The operand that is in the wrong place."""
    certain: bool = False


@dataclass(frozen=True, slots=True)
class Rule:
    """One entry of the catalog."""

    code: str
    name: str
    title: Texts
    meaning: Texts
    """What it is, in a sentence or two."""
    cure: Texts
    page: Texts
    """In Markdown, with `HEADINGS`; the first line says what is wrong."""
    kind: EventKind | None = None
    """The kind of event that the rule names; None for a cause."""
    common: float = 0.0
    """How often it is the cause, 0 to 1, before anything is known: from the counts of the corpus."""
    signs: tuple[Sign, ...] = ()
    detect: Callable[[Failure], Hint | None] | None = None
    sentences: Mapping[str, Texts] = field(default_factory=dict)
    """What else only this rule says: its reasons and, of one that names a kind of event, the `headline` of a
    finding and `why` hardware refuses it.
    """

    @property
    def texts(self) -> Mapping[str, Texts]:
        """Everything that the rule says, by the last part of its key."""
        return {"title": self.title, "meaning": self.meaning, "cure": self.cure, **self.sentences}

    def phrase(self, name: str, **values: Value) -> Phrase:
        """One of its own sentences, whose whole key is `rules.<name of the rule>.<name>`."""
        key = f"rules.{self.name}.{name}"
        return Phrase(key, **values)


def sign(weight: float, *looks: Look, certain: bool = False) -> Sign:
    """A sign of a rule."""
    return Sign(weight, looks, certain, any(isinstance(look, Said) for look in looks))


@dataclass(frozen=True, slots=True)
class Said:
    """The message is of one of these kinds and names such an operator, argument and devices."""

    kinds: frozenset[str]
    op: Pattern | None
    argument: Pattern | None
    devices: str

    def may(self, report: Report) -> bool:
        """Whether it can hold, by what costs nothing to see."""
        return report.kind in self.kinds and self.devices in ("", device_pattern(report.devices))

    def __call__(self, report: Report) -> Phrase | None:
        """What the message names."""
        if not self.may(report):
            return None
        if self.op is not None and not self.op.search(report.op or _called_in(report.statement)):
            return None
        if self.argument is not None and not (report.argument and self.argument.search(report.argument)):
            return None
        if report.argument and (self.op or self.argument):
            return names_argument(report.argument, report.op)
        if self.devices and report.kind in ("same-device", "argument-device"):
            return Phrase("because.devices", devices=", ".join(report.devices))
        return Phrase("because.message", kind=report.kind)


def names_argument(argument: str, op: str | None) -> Phrase:
    """That the message names an argument, and of which operator where it says so."""
    if op is None:
        return Phrase("because.argument-alone", argument=argument)
    return Phrase("because.argument", argument=argument, op=short_operator(op))


def said(kinds: str, *, op: str = "", argument: str = "", devices: str = "") -> Look:
    """A look at the message. `devices` is `host` (cpu and a GPU), `gpus` (two GPUs), `meta`, or nothing."""
    patterns = [Pattern(pattern, re.IGNORECASE) if pattern else None for pattern in (op, argument)]
    return Said(frozenset(kinds.split()), patterns[0], patterns[1], devices)


def named(place: str) -> Look:
    """The argument that the message names is on the `host`, on a `gpu` or on `another` GPU.

    It is on a GPU while the others are on the host, or on another GPU than the others.
    """

    def look(report: Report) -> Phrase | None:
        if report.argument is None or len(report.devices) < 2:
            return None
        own, others = report.devices[:2] if report.kind == "argument-device" else report.devices[1::-1]
        where = "host" if own == "cpu" else "gpu" if others == "cpu" else "another"
        because = names_argument(report.argument, report.op)
        return because if where == place and own != others else None

    return look


def product_with(place: str) -> Look:
    """Of a layer whose input and weight are apart: which is on the host, by the named argument.

    `mat1` is the input behind a bias; `mat2` and `weight` are the weight. A product that the statement writes
    out itself may have any operand at either place.
    """

    def look(report: Report) -> Phrase | None:
        written = report.at.code if report.at and not _OF_TORCH.search(report.at.file or "") else ""
        if device_pattern(report.devices) != "host" or _WRITTEN_OUT.search(written):
            return None
        named = "mm" if report.argument in ("mat1", "mat2") else _called_in(report.statement)
        product = report.op or named  # old messages name none, and some are cut off
        if report.argument not in (*_WEIGHTS, *_INPUTS, "out") or not _LAYERS.search(product):
            return None
        own = report.devices[0] if report.kind == "argument-device" else report.devices[1]
        weighs = report.argument in _WEIGHTS or (
            report.argument in ("self", "out") and "addmm" in (report.op or "")
        )
        where = "weight" if weighs == (own == "cpu") else "input"
        because = names_argument(report.argument, report.op)
        return because if where == place else None

    return look


def input_beside_weight(place: str) -> Look:
    """Of a message that prints first the input and then the weight: the input is on the `host`, or not."""

    def look(report: Report) -> Phrase | None:
        if report.argument == "hidden":
            return None  # the state of a recurrent layer is no weight
        where = "host" if report.devices[:1] == ("cpu",) else "gpu"
        operand = "input" if where == "host" else report.argument or "weight"
        return Phrase("because.away", operand=operand) if where == place else None

    return look


def indexed_on_host() -> Look:
    """Of a message about indices: the tensor that is indexed is on the host, and the indices are not."""

    def look(report: Report) -> Phrase | None:
        return Phrase("because.devices", devices="cpu") if report.devices == ("cpu",) else None

    return look


def argument(pattern: str) -> Look:
    """The message names an argument of such a name."""
    compiled = Pattern(pattern)

    def look(report: Report) -> Phrase | None:
        if report.argument is None or not compiled.search(report.argument):
            return None
        return names_argument(report.argument, report.op)

    return look


def before_maps() -> Look:
    """The message has the words of a torch from before any library placed a model by a device map."""

    def look(report: Report) -> Phrase | None:
        old = _OLD.search(report.message or "")
        return Phrase("because.message", kind=report.kind) if old else None

    return look


def line(pattern: str) -> Look:
    """The failing statement, or what it called, shows this."""
    compiled = Pattern(pattern)

    def look(report: Report) -> Phrase | None:
        found = compiled.search(report.statement)
        return Phrase("because.line", text=_shown(found)) if found and found[0] else None

    return look


def unless(look: Look) -> Look:
    """The other look finds nothing."""

    def opposite(report: Report) -> Phrase | None:
        return Phrase("because.message", kind=report.kind) if look(report) is None else None

    return opposite


def shown(pattern: str) -> Look:
    """Any printed source line shows this."""
    compiled = Pattern(pattern)

    def look(report: Report) -> Phrase | None:
        found = compiled.search(report.code)
        return Phrase("because.line", text=_shown(found)) if found and found[0] else None

    return look


def at(pattern: str) -> Look:
    """The failing frame is in a function of such a name."""
    compiled = Pattern(pattern)

    def look(report: Report) -> Phrase | None:
        return None if report.at is None else _in_frame(compiled, report.at)

    return look


def inside(pattern: str, last: int = 0) -> Look:
    """Any frame, or one of the `last` ones, is in a function of such a name."""
    compiled = Pattern(pattern)

    def look(report: Report) -> Phrase | None:
        for frame in reversed(report.frames[-last:]):
            if (reason := _in_frame(compiled, frame)) is not None:
                return reason
        return None

    return look


def below(pattern: str) -> Look:
    """A printed line like this called what failed, directly or not."""
    compiled = Pattern(pattern)

    def look(report: Report) -> Phrase | None:
        found = next((each for frame in report.frames[:-1] if (each := compiled.search(frame.code))), None)
        return Phrase("because.line", text=_shown(found)) if found and found[0] else None

    return look


def remote() -> Look:
    """A frame is in code that came with a checkpoint, which no release of a library holds."""

    def look(report: Report) -> Phrase | None:
        for frame in reversed(report.frames):
            if frame.file is not None and frame.file.startswith(REMOTE_CODE):
                return Phrase("because.frame", file=frame.file, function=frame.function or "?")
        return None

    return look


def anywhere(pattern: str) -> Look:
    """The paste says this somewhere, and not of something that was tried in vain."""
    compiled = Pattern(pattern, re.IGNORECASE)

    def look(report: Report) -> Phrase | None:
        found = compiled.search(report.evidence)
        return Phrase("because.words", text=_shown(found)) if found and found[0] else None

    return look


def launched() -> Look:
    """The paste shows how several processes were started."""

    def look(report: Report) -> Phrase | None:
        command = launch_in(report.words)
        return Phrase("because.words", text=command[:_LONGEST_SHOWN]) if command else None

    return look


def after(kind: str) -> Look:
    """Another error of this kind came before."""

    def look(report: Report) -> Phrase | None:
        return Phrase("because.earlier", kind=kind) if kind in report.earlier else None

    return look


def frameless() -> Look:
    """The paste shows no source line that could tell more."""

    def look(report: Report) -> Phrase | None:
        return None if report.code else Phrase("because.message", kind=report.kind)

    return look


def framed() -> Look:
    """The paste shows the failing line, whatever it is."""

    def look(report: Report) -> Phrase | None:
        where = report.at
        return (
            Phrase("because.frame", file=where.file or "?", function=where.function or "?")
            if where and report.statement
            else None
        )

    return look


def called() -> Look:
    """The paste shows who called what failed: a frame that is not torch's own."""

    def look(report: Report) -> Phrase | None:
        shown = any(each.file is not None for each in report.own_frames)
        return Phrase("because.message", kind=report.kind) if shown else None

    return look


def in_a_layer() -> Look:
    """The paste shows one of torch's layers that ran: its weight is its own."""

    def look(report: Report) -> Phrase | None:
        ran = any(OF_LAYER.search(frame.file or "") for frame in report.frames)
        return Phrase("because.message", kind=report.kind) if ran else None

    return look


def fails_in_a_layer() -> Look:
    """The failing statement called one of torch's layers, and no loss: it is that layer's input or weight."""

    def look(report: Report) -> Phrase | None:
        files = map(_file_of, report.below)
        ran = any(OF_LAYER.search(file) and not file.endswith("loss.py") for file in files)
        return Phrase("because.message", kind=report.kind) if ran else None

    return look


def hooked_layer() -> Look:
    """A layer with accelerate's hook meets its own weight: its input came to where the weight was."""

    def look(report: Report) -> Phrase | None:
        if report.at is None:
            return None
        above = report.frames[: report.frames.index(report.at)]
        own = [number for number, frame in enumerate(above) if not frame.plumbing]
        called = above[own[-1] + 1 :] if own else above
        reads = _OWN_WEIGHT.search(report.at.code) is not None
        layer = any(OF_LAYER.search(_file_of(frame)) for frame in report.below)
        if (layer and any(map(_is_hook, report.below))) or (reads and any(map(_is_hook, called))):
            return Phrase("because.hooked-layer")
        return None

    return look


_OWN_WEIGHT = Pattern(r"\bself\.weight \*|\* self\.weight\b|\w\(.{0,80}\bself\.weight\b")


def _is_hook(frame: Frame) -> bool:
    return frame.function == "new_forward" and _file_of(frame).endswith("hooks.py")


def _file_of(frame: Frame) -> str:
    return frame.file or ""


def beside_the_first() -> Look:
    """One rank of a launch works on its own GPU, and meets the first; or each of several processes does."""

    def look(report: Report) -> Phrase | None:
        rank = report.ranks[0] if len(report.ranks) == 1 else 0
        both = rank > 0 and {*report.devices} == {"cuda:0", f"cuda:{rank}"}
        first = [{*each} for each in report.pairs if len({*each}) > 1]
        both = both or (len(first) > 1 and all("cuda:0" in each and "cpu" not in each for each in first))
        return Phrase("because.told-rank-beside-first") if both else None

    return look


def device_pattern(devices: tuple[str, ...]) -> str:
    """`host`, `gpus` or `meta`; empty for other pairs."""
    kinds = {device.partition(":")[0] for device in devices}
    if "meta" in kinds:
        return "meta"
    if "cpu" in kinds and len(kinds) > 1:
        return "host"
    return "gpus" if kinds and "cpu" not in kinds and len(set(devices)) > 1 else ""


def _called_in(statement: str) -> str:
    """The functions that a statement calls: what failed, where an older message names no operator."""
    return " ".join(re.findall(r"\b(\w{1,60})\(", statement[:2000]))


def _in_frame(pattern: Pattern, frame: Frame) -> Phrase | None:
    name = (frame.function or "").rpartition(".")[2]
    if not pattern.search(name):
        return None
    return Phrase("because.frame", file=frame.file or "?", function=frame.function or "?")


def _shown(found: re.Match[str]) -> str:
    """What a look found, with the whole of the names at its ends: half a name tells a reader nothing."""
    text, (start, end) = found.string, found.span()
    while start and (text[start - 1].isalnum() or text[start - 1] in "_."):
        start -= 1
    while end < len(text) and (text[end].isalnum() or text[end] == "_"):
        end += 1
    end += text[end : end + 1] in ("]", ")")
    shown = " ".join(text[start:end].split())[:_LONGEST_SHOWN]
    return shown + "".join(
        f"...{close}" for open_, close in ("()", "[]") if shown.count(open_) > shown.count(close)
    )
