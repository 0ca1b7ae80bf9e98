"""Tensors that are made without a device, and what they meet."""

# ruff: noqa: RUF001 # Chinese has its own punctuation

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator, Mapping

from samedevice.diagnosis.fixes import with_keyword
from samedevice.lint._meetings import Pair, pairs, symbol_expression
from samedevice.lint._rule import Hit, LintRule, Repair
from samedevice.lint._source import CALLERS_DECIDE, Around, Call, LintedFile, nodes, short
from samedevice.messages import Language, Phrase
from samedevice.static.tensors import FUNCTIONS, MAKERS, SourceText, Tensor, makes_something

SENTENCES: Mapping[str, Mapping[Language, str]] = {
    "meets": {
        "en": "line {line} uses {stray} together with {other}",
        "zh": "第 {line} 行把 {stray} 与 {other} 一起使用",
    },
    "meets-elsewhere": {
        "en": "line {line} of {file} uses {stray} together with {other}",
        "zh": "{file} 第 {line} 行把 {stray} 与 {other} 一起使用",
    },
    "made-elsewhere": {
        "en": "line {line} of {file} makes it: {made}",
        "zh": "它由 {file} 第 {line} 行创建：{made}",
    },
    "fix": {"en": "make it on {device}", "zh": "创建时写 device={device}"},
}
"""What every rule says of them: where they meet, where one was made, and the repair."""


def unplaced(file: LintedFile, rule: LintRule, counts: Callable[[Tensor], bool]) -> Iterator[Hit]:
    """Each tensor of a file that is made without a device and meets one that counts, in a rule's words."""
    if file.is_test or file.source.changes_default:
        return
    makers = {id(call.node): call for call in file.calls(*MAKERS) if _is_unplaced(file, call)}
    told: set[int] = set()
    done: set[int] = set()
    own = (*(call.around for call in makers.values()), *_users(file, makers.values()))
    for around in (*own, *file.that_call(makes_something)):
        key = id(around.function)
        if key in done or file.function_name(around) in CALLERS_DECIDE:
            continue
        done.add(key)
        for pair in pairs(file, around, _is_made):
            if not counts(pair.placed):
                continue
            maker = makers.get(id(pair.stray.made))
            if maker is not None and id(maker.node) not in told:
                told.add(id(maker.node))
                yield _hit(file, rule, maker, pair)
            elif maker is None and pair.inside is None and id(pair.stray.made) not in told:
                home = file.reading.maker_of(pair.stray)
                if home is not None and home is not file.source:
                    told.add(id(pair.stray.made))
                    yield _brought(file, rule, home, pair)


def _meets(file: LintedFile, rule: LintRule, pair: Pair) -> Phrase:
    return pair.told(file, rule, stray=short(pair.stray_node, 40), other=short(pair.placed_node, 40))


def _brought(file: LintedFile, rule: LintRule, home: SourceText, pair: Pair) -> Hit:
    """A tensor that a function of another file made."""
    made = pair.stray.made
    assert made is not None
    line = str(getattr(made, "lineno", 0))
    where = rule.phrase("made-elsewhere", file=home.name, line=line, made=short(made))
    return Hit(pair.stray_node, {"made": short(pair.stray_node)}, (where, _meets(file, rule, pair)))


def _users(file: LintedFile, makers: Iterable[Call]) -> Iterator[Around]:
    """The functions that use a tensor which the file's own statements make, or call one that makes some; of a
    program all, as they are called with what it makes.
    """
    if file.is_script:
        yield from (Around(function, around.owner) for function, around in file.source.functions)
        return
    makers = list(makers)
    waiting = {file.function_name(call.around) for call in makers} - {""}
    entered = set(waiting)
    while waiting:
        calls = [
            call for call in file.source.calls.get(waiting.pop(), ()) if call.around.function is not None
        ]
        yield from (call.around for call in calls)
        waiting |= {file.function_name(call.around) for call in calls} - entered
        entered |= waiting
    names = {
        target.id
        for call in makers
        if call.around.function is None and isinstance(call.around.statement, ast.Assign)
        for target in call.around.statement.targets
        if isinstance(target, ast.Name)
    }
    for function, around in file.source.functions if names else ():
        if any(isinstance(node, ast.Name) and node.id in names for node in nodes(function)):
            yield Around(function, around.owner)


def _is_unplaced(file: LintedFile, call: Call) -> bool:
    return call.keyword("device") is None and file.dotted(call).startswith("torch.")


def _is_made(tensor: Tensor) -> bool:
    return tensor.where.unplaced and tensor.role == "made"


def _hit(file: LintedFile, rule: LintRule, maker: Call, pair: Pair) -> Hit:
    return Hit(
        maker.node,
        {"made": short(maker.node)},
        (_meets(file, rule, pair),),
        lambda: _repair(file, rule, maker, pair),
    )


def _repair(file: LintedFile, rule: LintRule, maker: Call, pair: Pair) -> Repair | None:
    device = symbol_expression(file, maker.around, pair.placed.where, maker.node)
    if device is None and _stands_beside(maker, pair):
        device = f"{ast.unparse(pair.placed_node)}.device"
    if device is None or maker.name not in FUNCTIONS["factories"] | {"tensor", "as_tensor"}:
        return None
    if any(isinstance(each, ast.Starred) for each in maker.node.args):
        return None
    text = with_keyword(file.script, maker.node, "device", device)
    return Repair(rule.phrase("fix", device=device), text)


def _stands_beside(maker: Call, pair: Pair) -> bool:
    """Whether a tensor is made in the very expression in which it meets another one, which has a name."""
    called = pair.meeting.node.func if isinstance(pair.meeting.node, ast.Call) else None
    return (
        isinstance(pair.placed_node, ast.Name)
        and pair.placed_node is not called
        and pair.stray_node is maker.node
    )


def on_a_gpu(tensor: Tensor) -> bool:
    """Whether the code itself names the GPU that a tensor is on."""
    return tensor.where.kind == "literal" and tensor.where.of[0] != "cpu"
