"""How a script of the user's gets micro-batch, accumulation and the like from its launch.

Must guarantee: an option is only written into the command where the script's source defines it, and what the
script does not take is told, with the line that has another value.
"""

from __future__ import annotations

import ast
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from samedevice.messages import Phrase, Several
from samedevice.preflight.launch import without_option

_NEEDED = ("per_device_train_batch_size", "gradient_accumulation_steps", "gradient_checkpointing")
"""What decides over memory and samples of a step, and is in no file that accelerate reads."""
_UNSAID = {"gradient_accumulation_steps": 1, "gradient_checkpointing": False}
"""What a script does that names neither."""
_TYPES = ("bf16", "fp16")
_PARSERS = ("HfArgumentParser", "TrlParser")
"""Their options are the fields of the classes that they are given."""
_PARSED = frozenset(("parse_args_into_dataclasses", "parse_args_and_config"))
_FILE_PARSED = frozenset(("parse_json_file", "parse_yaml_file"))
_SETTINGS = "TrainingArguments"
"""How classes with these fields end; those that TrlParser is given for a trainer end otherwise."""
_TRL_SETTINGS = "Config"


Takes = Literal["value", "nothing", "yes-or-no", "any-text"]


@dataclass(frozen=True, slots=True)
class Passed:
    """The arguments of a script with the numbers of a launch, and what it has to be told otherwise."""

    arguments: tuple[str, ...]
    missing: Phrase | None = None


@dataclass(frozen=True, slots=True)
class _Option:
    spelling: str
    takes: Takes = "value"
    """`nothing`: there or not (`store_true`); `yes-or-no`: `--x` or `--no-x`; `any-text`: `type=bool`, for
    which every text but an empty one is true.
    """

    def words(self, value: Any) -> tuple[str, ...]:
        match self.takes:
            case "nothing":
                return (self.spelling,) if value else ()
            case "yes-or-no":
                return (self.spelling,) if value else (f"--no-{self.spelling[2:]}",)
            case "any-text":
                return (self.spelling, "True") if value else ()
        return self.spelling, str(value)


def passed(script: Path | None, arguments: Sequence[str], settings: Mapping[str, Any]) -> Passed:
    """Write `settings`, by the names of `TrainingArguments`, into the arguments of a script.

    A script that cannot be read gets its arguments as they are, and nothing is said of it.
    """
    tree = None if script is None else _tree(script)
    if script is None or tree is None:
        return Passed(tuple(arguments))
    names = {_name(node) for node in ast.walk(tree)}
    from_file = bool(names & _FILE_PARSED) and len(arguments) == 1 and not arguments[0].startswith("-")
    options = {} if from_file else dict(_options(tree))
    if not from_file and names & _PARSED and _parses_settings(tree):
        options = {**{name: _Option(f"--{name}") for name in (*_NEEDED, *_TYPES)}, **options}
    words = tuple(arguments)
    for name in (*_NEEDED, *_TYPES):
        if name in options:
            words = (*without_option(words, name), *options[name].words(settings[name]))
    written = dict(_written(tree))
    left = [
        name
        for name in _NEEDED
        if name not in options
        and settings[name] != (written[name][0] if name in written else _UNSAID.get(name))
    ]
    if not left:
        return Passed(words)
    told = tuple(_setting(name, settings[name], written.get(name)) for name in left)
    where = arguments[0] if from_file else str(script)
    return Passed(words, Phrase("preflight.not-passed", file=where, settings=Several(told, "comma")))


def _setting(name: str, value: Any, written: tuple[Any, int] | None) -> Phrase:
    if written is None:
        return Phrase("preflight.setting", name=name, value=str(value))
    return Phrase(
        "preflight.setting-written", name=name, value=str(value), given=str(written[0]), line=written[1]
    )


def _tree(script: Path) -> ast.Module | None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(script.read_text("utf-8"))
    except (OSError, ValueError, SyntaxError, RecursionError, MemoryError):
        return None


def _name(node: ast.AST) -> str:
    match node:
        case ast.Attribute(attr=name) | ast.Name(id=name):
            return name
    return ""


def _options(tree: ast.Module) -> Iterator[tuple[str, _Option]]:
    """Options by name, as `add_argument("--gradient-checkpointing", action="store_true")` defines them."""
    for node in ast.walk(tree):
        if not (isinstance(node, ast.Call) and _name(node.func) == "add_argument"):
            continue
        told = {each.arg: each.value for each in node.keywords}
        takes = _takes(told.get("action"), told.get("type"))
        if takes is None or "dest" in told:
            continue
        for word in node.args:
            if isinstance(word, ast.Constant) and isinstance(word.value, str) and word.value.startswith("--"):
                yield word.value[2:].replace("-", "_"), _Option(word.value, takes)


def _takes(action: ast.expr | None, kind: ast.expr | None) -> Takes | None:
    """What an option wants behind it; None where that is not known here."""
    if action is None:
        return "any-text" if kind is not None and _name(kind) == "bool" else "value"
    if isinstance(action, ast.Constant):
        return "nothing" if action.value == "store_true" else "value" if action.value == "store" else None
    return "yes-or-no" if _name(action) == "BooleanOptionalAction" else None


def _parses_settings(tree: ast.Module) -> bool:
    """Whether a parser is given training arguments, or a class that is made of them."""
    own = {
        node.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef) and any(_name(base).endswith(_SETTINGS) for base in node.bases)
    }
    return any(
        _name(part).endswith(_SETTINGS) or _name(part) in own or (trl and _name(part).endswith(_TRL_SETTINGS))
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and (parser := _name(node.func)).endswith(_PARSERS)
        for trl in (parser == "TrlParser",)
        for given in (*node.args, *(each.value for each in node.keywords))
        for part in ast.walk(given)
        if _name(part) != "ModelConfig"
    )


def _written(tree: ast.Module) -> Iterator[tuple[str, tuple[Any, int]]]:
    """Values that a call in the script writes, with their lines."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and _name(node.func) != "add_argument":
            for each in node.keywords:
                if each.arg in _NEEDED and isinstance(each.value, ast.Constant):
                    yield each.arg, (each.value.value, each.value.lineno)
