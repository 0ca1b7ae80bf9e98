"""Where the operands of a failing statement come from, as the functions of its traceback are written.

An argument is followed to the call in the next frame out that hands it over, and on from there, as far as the
source is here. Nothing is imported or run.
"""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Protocol

from samedevice.events import Written
from samedevice.provenance.syntax import parsed
from samedevice.static.names import OWN, called_name, hands_on, parameters_of, without_receiver
from samedevice.static.sources import Sources, parsed_text
from samedevice.static.statement import Statement, find_statement, runs_a_module, without_parameters

_LONGEST_TEXT = 60_000
_MOST_FRAMES = 40
"""Frames that are followed, from the innermost out."""
_OPEN = ast.Name("?")
"""What a call hands over where its starred arguments leave that open."""
_NO_FUNCTION = without_parameters("<unknown>", [])
_RUN_BY_CALLS = frozenset("forward __call__".split())
"""Methods that run where their object is called."""
_HERE = Sources()
"""Installed packages, and scripts on this computer."""


class Printed(Protocol):
    """A frame of a traceback, as a text prints it."""

    @property
    def file(self) -> str | None:
        """Relative to the installed package, where it is of one; else as the traceback has it."""

    @property
    def line(self) -> int | None:
        """Of whatever version it was."""

    @property
    def function(self) -> str | None:
        """Its name, with its class or without."""

    @property
    def code(self) -> str:
        """The printed statement; empty where none is printed."""

    @property
    def marked(self) -> str:
        """The part of it that marks below point to; empty without marks."""


def written_origins(
    frames: Sequence[Printed], shown: Sequence[str] = (), sources: Sources | None = None
) -> tuple[Written, ...]:
    """The origins of the operands of the innermost frame's statement; nothing where its source is missing.

    `frames` are given oldest first. Their source is in `sources`, in an installed package, in a script on
    this computer, or is a text of `shown`.
    """
    try:
        return tuple(_origins(frames[-_MOST_FRAMES:], shown, sources or _HERE))
    except RecursionError:
        return ()  # an expression that Python itself can hardly take apart


def _origins(frames: Sequence[Printed], shown: Sequence[str], sources: Sources) -> Iterator[Written]:
    short = [textwrap.dedent(text) for text in shown if len(text) <= _LONGEST_TEXT]
    pieces = [tree for text in short if (tree := parsed_text(text)) is not None]
    step: _Step | None = None
    for frame in frames:
        step = _Step(frame, pieces, sources, step)
    if step is not None and step.statement is not None:
        for each in step.statement.origins(step.frame.marked):
            yield step.followed(each)


@dataclass(frozen=True, slots=True)
class _Wanted:
    """An argument of a call that is looked for."""

    name: str
    position: int | None
    """Without the object of a method; None for one that only its name hands over."""
    functions: frozenset[str]
    """Names of the function that got it, and of those around it that handed on what they were given."""


@dataclass(frozen=True, eq=False)
class _Step:
    """A frame, and the one that called it."""

    frame: Printed
    pieces: Sequence[ast.Module]
    sources: Sources
    caller: _Step | None
    asked: dict[str, bool | None] = field(default_factory=dict)
    """What is known of parameters that may be None, and those that are being asked for."""

    @cached_property
    def statement(self) -> Statement | None:
        """Its statement with the function around it, where their source is here."""
        trees = (*self.sources.trees(self.frame.file), *self.pieces)
        return next(filter(None, map(self._found_in, trees)), None)

    def _found_in(self, tree: ast.Module) -> Statement | None:
        frame = self.frame
        if not frame.code or not frame.function:
            return None
        found = find_statement(tree, frame.function.rpartition(".")[2], frame.line, frame.code)
        return None if found is None else replace(found, given=self._given, shown=tree in self.pieces)

    def _placed(self, origin: Written) -> Written:
        """An origin with its file; without the line, where only a text shows the source."""
        shown = self.statement is not None and self.statement.shown
        owner = self.statement.owner if self.statement is not None else None
        return replace(
            origin,
            file=self.frame.file,
            line=None if shown else origin.line,
            owner=None if owner is None else owner.name,
        )

    def followed(self, origin: Written) -> Written:
        """An origin; that of what the callers hand over, where it is an argument."""
        if origin.origin != "argument" or self.statement is None:
            return self._placed(origin) if origin.origin != "unknown" else origin
        wanted = self._parameter(origin.text)
        handed = None if wanted is None or self.caller is None else self.caller.handed(wanted, origin.name)
        found = handed or self._placed(origin)
        return (
            replace(found, position=wanted.position) if wanted is not None and self._is_the_model else found
        )

    @cached_property
    def _is_the_model(self) -> bool:
        """Whether it is the `forward` of the outermost module on the stack, which gets what comes in."""
        owner = self.statement.owner if self.statement is not None else None
        if (
            owner is None
            or not owner.bases
            or self.frame.function not in ("forward", f"{owner.name}.forward")
        ):
            return False
        step = self.caller
        while step is not None:
            if (step.frame.function or "").rpartition(".")[2] in _RUN_BY_CALLS:
                return False
            step = step.caller
        return True

    def handed(self, wanted: _Wanted, name: str) -> Written | None:
        """The origin of what this frame's statement hands over; None where that cannot be told."""
        call = self._call(wanted)
        value = self._value(call, wanted) if call is not None else None
        if isinstance(value, _Wanted):
            return None if self.caller is None else self.caller.handed(value, name)
        if value is None or value is _OPEN:
            return None
        if self.statement is not None:
            found = self.statement.traced(value, name)
            told = self.followed(found) if found.origin != "unknown" else None
            return None if told is None else replace(told, calls=told.calls + 1)
        found = Statement(self._node, _NO_FUNCTION, None).traced(value, name)
        if found.origin == "unknown":
            found = Written(name, "argument", ast.unparse(value)[:120])
        return replace(found, line=self.frame.line, file=self.frame.file, calls=1)

    def _given(self, parameter: str) -> bool | None:
        """Whether the callers hand over a parameter that may be None."""
        if parameter not in self.asked:
            self.asked[parameter] = None
            self.asked[parameter] = self._handed_by_callers(parameter)
        return self.asked[parameter]

    def _handed_by_callers(self, parameter: str) -> bool | None:
        wanted, step = self._parameter(parameter), self.caller
        while wanted is not None and step is not None:
            call = step._call(wanted)
            if call is None:
                return None
            passed = step._value(call, wanted)
            if not isinstance(passed, _Wanted):
                return step._holds(passed)
            wanted, step = passed, step.caller
        return None

    def _holds(self, value: ast.expr | None) -> bool | None:
        """Whether an expression of this frame's statement is a tensor, not None; None where that is open."""
        if value is _OPEN:
            return None
        if value is None or (isinstance(value, ast.Constant) and value.value is None):
            return False
        if self.statement is None:
            return None
        found = self.statement.traced(value, "")
        if found.origin == "argument":
            return self._given(found.text)
        return None if found.origin == "unknown" else True

    def _parameter(self, name: str) -> _Wanted | None:
        found = self.statement
        if found is None or name not in parameters_of(found.function):
            return None
        own = without_receiver(found.function, method=found.owner is not None)
        positional = len(own) - len(found.function.args.kwonlyargs)
        position = own.index(name) if name in own and own.index(name) < positional else None
        return _Wanted(name, position, frozenset((found.function.name,)))

    @cached_property
    def _node(self) -> ast.stmt:
        """Its statement; as it is printed, where the source is not here."""
        if self.statement is not None:
            return self.statement.node
        tree = parsed(self.frame.code)
        return tree.body[0] if tree is not None and len(tree.body) == 1 else ast.Pass()

    def _call(self, wanted: _Wanted) -> ast.Call | None:
        """The call of this frame's statement that runs a function; None where several may."""
        calls = [each for each in ast.walk(self._node) if isinstance(each, ast.Call)]
        named = [each for each in calls if called_name(each) in wanted.functions and not _of_a_class(each)]
        if not named and wanted.functions & _RUN_BY_CALLS:
            named = [each for each in calls if runs_a_module(each)]
        if not named:
            named = [each for each in calls if any(_starred(part) for part in each.args) and _spread(each)]
        return named[0] if len(named) == 1 else None

    def _value(self, call: ast.Call, wanted: _Wanted) -> ast.expr | _Wanted | None:
        """What a call hands over as an argument; what its caller must hand over where it passes all on."""
        for each in call.keywords:
            if each.arg == wanted.name:
                return each.value
        given = [each for each in call.args if not (isinstance(each, ast.Name) and each.id in OWN)]
        stars = next((index for index, each in enumerate(given) if _starred(each)), None)
        if wanted.position is not None and wanted.position < (len(given) if stars is None else stars):
            return given[wanted.position]
        rest = _spread(call)
        if stars is None and rest is None:
            return None
        function = self.statement.function if self.statement is not None else None
        own = frozenset((self.frame.function or "",)) | wanted.functions
        if stars is not None and wanted.position is not None and _passes(function, given[stars]):
            ahead = 0 if function is None else _positional(function)
            return _Wanted(wanted.name, wanted.position - stars + ahead, own)
        if rest is not None and _passes(function, rest):
            return _Wanted(wanted.name, None, own)
        return _OPEN


def _of_a_class(call: ast.Call) -> bool:
    """Whether a method is called on its class, with its object among the arguments."""
    of = call.func.value if isinstance(call.func, ast.Attribute) else None
    return isinstance(of, ast.Name) and of.id[:1].isupper()


def _starred(node: ast.expr) -> bool:
    return isinstance(node, ast.Starred)


def _spread(call: ast.Call) -> ast.expr | None:
    """The dictionary that a call spreads over its keywords."""
    return next((each.value for each in call.keywords if each.arg is None), None)


def _passes(function: ast.FunctionDef | ast.AsyncFunctionDef | None, node: ast.expr) -> bool:
    """Whether a starred argument is what its function collects; without source, by the usual names."""
    inner = node.value if isinstance(node, ast.Starred) else node
    if not isinstance(inner, ast.Name):
        return False
    if function is None:
        return inner.id in ("args", "kwargs", "inputs")
    collected = (function.args.vararg, function.args.kwarg)
    own = any(each is not None and each.arg == inner.id for each in collected)
    return own and hands_on(function, inner.id)


def _positional(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    every = (*function.args.posonlyargs, *function.args.args)
    return sum(each.arg not in OWN for each in every)
