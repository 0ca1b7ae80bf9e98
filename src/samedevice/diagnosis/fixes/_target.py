"""Which device a repair writes.

It is an expression that is bound where the repair stands, and true each time the statement runs.

Must guarantee: what is `derived` names no GPU. It follows a tensor, a weight or a variable of the script that
has the wanted device for every combination of devices that the statement met. A literal device is the last
resort and no `derived` one.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from samedevice.diagnosis._failure import Failure
from samedevice.diagnosis.fixes._at_hand import device_at
from samedevice.diagnosis.fixes._source import Script, called
from samedevice.diagnosis.fixes._spelling import device_text, spelled_at, weight_text
from samedevice.events import Operand, Place
from samedevice.provenance.syntax import given_by_name

CALLED = ("generate", "forward", "chat", "__call__", "encode")
"""Methods by which a script runs a model."""


@dataclass(frozen=True, slots=True)
class Target:
    """A device as the script can write it."""

    text: str
    derived: bool
    title: str
    """As a title calls it."""


def target_at(failure: Failure, script: Script | None, guilty: Operand, line: int) -> Target | None:
    """The device of what `guilty` meets, as an expression for this line of the script.

    None when no one device is right there.
    """
    others = partners(failure, guilty)
    devices = {each.device for each in others}
    if len(devices) != 1:
        return None
    if script is not None:
        for text in _derived(failure, script, guilty, others, line):
            if text != f"{guilty.local}.device":  # where it is already
                return Target(text, True, text)
    device = devices.pop()
    of_rank = own(device, failure)
    reusable = script is not None and not of_rank and is_reusable(script, line)
    if len(wanted(failure, guilty)) > 1 and not of_rank and not reusable:
        return None
    hand = None
    if script is not None and open_to_change(guilty) and _on_stack(failure, script, line):
        hand = device_at(failure, script, device, line)
    newest = guilty.decision
    follows = newest is not None and newest.source == "tensor"  # the function has told already
    if (
        hand is None
        and script is not None
        and reusable
        and not (follows or _is_failing(failure, script, line))
    ):
        hand = told_by_function(script, line)
        if newest is not None and hand == newest.said:
            hand = None  # this is what put it there
    if hand is not None:
        return Target(hand, True, hand)
    return None if reusable else Target(code_of(device, failure, script), False, named(device, failure))


def _on_stack(failure: Failure, script: Script, line: int) -> bool:
    """Whether a line is in a function that runs, or in the script itself."""
    here = script.scope(line)
    return any(script.holds(each) and script.scope(each.line) is here for each in failure.event.stack)


def _is_failing(failure: Failure, script: Script, line: int) -> bool:
    """Whether a line is in the function that fails: which names have the device there is known."""
    at = failure.event.at
    return script.holds(at) and script.scope(line) is script.scope(at.line)


def is_reusable(script: Script, line: int) -> bool:
    """Whether a line is in a class, or in a function that is given something: a device that is written down
    there is wrong for the next caller.
    """
    here = script.scope(line)
    given = here.args if isinstance(here, (ast.FunctionDef, ast.AsyncFunctionDef)) else None
    return script.class_of(here) is not None or (given is not None and bool([*given.args, *given.kwonlyargs]))


def told_by_function(script: Script, line: int) -> str | None:
    """The device of a tensor whose sizes the statement at this line reads; or that to which the function
    sends something else, or which it names.
    """
    here = script.scope(line)
    if not isinstance(here, (ast.FunctionDef, ast.AsyncFunctionDef)):
        return None
    inside = [each for each in ast.walk(here) if isinstance(each, ast.Attribute)]
    calls = {id(each.func) for each in ast.walk(here) if isinstance(each, ast.Call)}
    asked = [each for each in inside if each.attr == "shape" or (each.attr == "size" and id(each) in calls)]
    sizes = [each for each in asked if _in_line(script, each, line)]
    told = [f"{script.text(each.value)}.device" for each in sizes]
    told += [script.text(each) for each in _sent_to(here)]
    told += [script.text(each) for each in inside if each.attr == "device"]
    for text in told:
        name = text.partition(".")[0]
        known = re.fullmatch(r"[^\W\d]\w*(\.device)?", text) and name not in ("torch", "cls")
        early = here.name == "__init__" and name == "self"  # it may not be there yet
        if known and not early and text != "self" and script.bound(text, here, line, line):
            return text
    return None


def _sent_to(function: ast.AST) -> Iterator[ast.expr]:
    """What a function names as the device of something: `.to(device)`, `device=self.device`."""
    types = {
        node.value.id
        for node in ast.walk(function)
        if isinstance(node, ast.keyword) and node.arg == "dtype" and isinstance(node.value, ast.Name)
    }
    for node in ast.walk(function):
        match node:
            case ast.Call(
                func=ast.Attribute(attr="to"), args=[(ast.Name() | ast.Attribute(attr="device")) as given]
            ):
                if not isinstance(given, ast.Name) or given.id not in {"dtype", *types}:
                    yield given
            case ast.keyword(arg="device", value=(ast.Name() | ast.Attribute(attr="device")) as given):
                yield given


def _in_line(script: Script, node: ast.expr, line: int) -> bool:
    """Whether the statement that begins at a line holds a node."""
    statement = script.around(node)
    return statement is not None and statement.lineno == line


def open_to_change(operand: Operand) -> bool:
    """Whether nobody chose its device: it was left to a default, or written down; what follows a tensor or
    an argument is right for others that were given the same.
    """
    newest = operand.decision
    return newest is None or newest.inherited or newest.source not in ("tensor", "argument", "launcher")


def partners(failure: Failure, guilty: Operand) -> list[Operand]:
    """The operands on other devices that the operand meets.

    Scalars of the host are not among them: they may stay there.
    """
    return [
        each
        for each in failure.event.operands
        if each.device != guilty.device and not (each.device == "cpu" and each.shape == () and each.dtype)
    ]


def _stays(operand: Operand) -> bool:
    """Whether it is a scalar of the host; `dtype` is empty for what is no tensor."""
    return operand.device == "cpu" and operand.shape == () and bool(operand.dtype)


def wanted(failure: Failure, guilty: Operand) -> set[str]:
    """The devices that the operand met over all failures of the statement."""
    operands = [each for each in failure.event.operands if each.dtype]
    others = partners(failure, guilty)
    found = {each.device for each in others}
    for met in failure.event.met:
        if len(met) == len(operands):
            found |= {device for device, each in zip(met, operands, strict=True) if each in others}
    return found


def unites(failure: Failure, guilty: Operand) -> bool:
    """Whether the statement is right as soon as this operand goes where the others are."""
    rest = [each for each in failure.event.operands if each.name != guilty.name and not _stays(each)]
    return len({each.device for each in rest}) == 1


def model_name(failure: Failure, script: Script | None) -> str | None:
    """The variable that the script's failing call is made on.

    `model` in `model.generate(...)` or `model(...)`.
    """
    if script is None:
        return None
    for place in calls_of(failure, script):
        for call in sorted(script.find(place), key=lambda each: -len(script.text(each))):
            function = call.func
            if isinstance(function, ast.Attribute) and function.attr in CALLED:
                function = function.value
            if (
                isinstance(function, ast.Name)
                and re.fullmatch(r"[a-z_]\w*", function.id)
                and script.assignment(function.id) is not None
            ):
                return function.id
    return None


def calls_of(failure: Failure, script: Script) -> list[Place]:
    """Lines of the script on the stack, outermost first."""
    return [place for place in (*failure.event.stack, failure.event.user_at) if script.holds(place)]


def own(device: str, failure: Failure) -> bool:
    """Whether a device is the only GPU of a rank: on the other ranks it is another one."""
    if failure.group is not None:
        return failure.launched and device.startswith("cuda")
    gpus = {each.device for each in failure.event.operands if each.device.startswith("cuda")}
    return failure.launched and device.startswith("cuda") and len(gpus) == 1


def named(device: str, failure: Failure) -> str:
    """A device as a title calls it."""
    return "cuda:LOCAL_RANK" if own(device, failure) else device


def code_of(device: str, failure: Failure, script: Script | None) -> str:
    """A device as the script writes it; in a launch the GPU of the rank, whichever it is."""
    if not own(device, failure):
        return f'"{device}"'
    rank = script.rank_name if script is not None else None
    if rank is not None:
        return f'f"cuda:{{{rank}}}"'
    return (
        """f"cuda:{os.environ.get('LOCAL_RANK', 0)}\""""
        if script is not None and script.imports("os")
        else '"cuda"'
    )


def _derived(
    failure: Failure, script: Script, guilty: Operand, others: list[Operand], line: int
) -> Iterator[str]:
    """Expressions for the wanted device that are bound at this line, the nearest first."""
    at, here = failure.event.at, script.scope(line)
    weights = sorted(others, key=lambda each: "weight" not in (each.parameter or ""))
    # One run of one function: names mean the same here and where it fails. What a later line made came from
    # another run of it.
    together = script.holds(at) and script.scope(at.line) is here and line <= at.line
    if together:
        if line == at.line:
            yield from _spelled(script, at, others)
        yield from _names(script, here, [each.local for each in others], line, at.line)
        yield from filter(None, (_of_self(failure, script, here, each) for each in weights))
        inside = [
            part.name
            for each in others
            if _inside(each, at)
            for part in each.ingredients
            if part.device == each.device
        ]
        yield from _names(script, here, inside, line, at.line)
    if together or len(wanted(failure, guilty)) == 1:
        yield from filter(None, (_placed_by(script, here, each, line) for each in others))
    if len(wanted(failure, guilty)) > 1:
        return
    if together:  # the same device this time; no proof for the next
        parts = [part.name for each in others for part in each.ingredients if part.device == each.device]
        beside = [part.name for part in failure.event.read if part.device == others[0].device]
        yield from _names(script, here, [*parts, *beside], line, at.line)
    yield from _constants(script, here, others[0].device, line)
    model = model_name(failure, script)
    if (
        model is not None
        and (made := script.assignment(model)) is not None
        and made.lineno < line
        and script.scope(made.lineno) is here
    ):
        yield from (f"{model}.{path_of(each.parameter)}.device" for each in weights if each.parameter)
    for each in others:
        name, place = assigned(script, each), each.moved or each.made
        if (
            name is not None
            and place is not None
            and place.line < line
            and script.scope(place.line) is here
            and script.bound(name, here, place.line + 1, line)
        ):
            yield f"{name}.device"


def _spelled(script: Script, at: Place, others: Sequence[Operand]) -> Iterator[str]:
    """The devices of operands as the failing statement itself can ask for them."""
    for each in others:
        found = weight_text(script, at, each) or device_text(script, spelled_at(script, at, each))
        if found is not None:
            yield found


def _inside(operand: Operand, at: Place) -> bool:
    """Whether the failing call itself made the operand, as log-probabilities inside a loss."""
    made = operand.made
    here = made is not None and operand.moved is None and (made.file, made.line) == (at.file, at.line)
    return here and made is not None and made.call in at.call


def _constants(script: Script, here: ast.AST, device: str, line: int) -> Iterator[str]:
    """Names that the script, at its top and once, gives to this very device."""
    for node in script.tree.body:
        for target, value in _single(node):
            given = [each.value for each in ast.walk(value) if isinstance(each, ast.Constant)]
            plain = isinstance(value, ast.Constant) or script.text(value).startswith("torch.device(")
            once = len([each for each in ast.walk(script.tree) if _stores(each, target.id)]) == 1
            if plain and given == [device] and once and script.bound(target.id, here, line, line):
                yield target.id


def _single(node: ast.stmt) -> Iterator[tuple[ast.Name, ast.expr]]:
    """Names with what an assignment gives each of them: `a = 1`, `a, b = 1, 2`."""
    match node:
        case ast.Assign(targets=[ast.Name() as target], value=value):
            yield target, value
        case ast.Assign(targets=[ast.Tuple(elts=targets)], value=ast.Tuple(elts=values)):
            if len(targets) == len(values) and all(isinstance(each, ast.Name) for each in targets):
                yield from (
                    (name, given)
                    for name, given in zip(targets, values, strict=True)
                    if isinstance(name, ast.Name)
                )


def _stores(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Store)


def _names(
    script: Script, here: ast.AST, names: Sequence[str | None], line: int, until: int
) -> Iterator[str]:
    """Names of tensors that are bound here and mean the same at `until`."""
    for name in filter(None, names):
        if _is_counted(here, name) or "(" in name:
            continue  # another turn's, or computed once more
        in_init = name.startswith("self.") and isinstance(here, ast.FunctionDef) and here.name == "__init__"
        if not in_init and script.bound(name, here, line, until):
            yield f"{name}.device"


def _is_counted(scope: ast.AST, name: str) -> bool:
    """Whether a name with a number in brackets is one turn of what the function counts through: `x[i]`."""
    counted = re.fullmatch(r"(.+)\[-?\d+\]", name)
    return counted is not None and any(
        isinstance(node, ast.Subscript)
        and any(isinstance(part, ast.Name) for part in ast.walk(node.slice))
        and ast.unparse(node.value) == counted[1]
        for node in ast.walk(scope)
    )


def assigned(script: Script, operand: Operand) -> str | None:
    """The name that the script gives to what it makes in the line of the operand."""
    place = operand.moved or operand.made
    statement = script.statement(place) if script.holds(place) else None
    if (
        isinstance(statement, ast.Assign)
        and len(statement.targets) == 1
        and isinstance(statement.targets[0], ast.Name)
    ):
        value = statement.value
        ran = " ".join((place.call or place.code).split()) if place is not None else ""
        if " ".join(script.text(value).split()) == ran or ran.startswith(f"{statement.targets[0].id} ="):
            return statement.targets[0].id
    return None


def _of_self(failure: Failure, script: Script, here: ast.AST, operand: Operand) -> str | None:
    """A weight as a method of a module on the stack reaches it: `self.proj.weight.device`."""
    kind = script.class_of(here)
    if (
        operand.parameter is None
        or kind is None
        or not isinstance(here, (ast.FunctionDef, ast.AsyncFunctionDef))
        or here.name == "__init__"
    ):
        return None
    if not here.args.args or here.args.args[0].arg != "self":
        return None
    module = next((each for each in failure.event.running if each.kind == kind.name), None)
    if module is None:
        return None
    prefix = "" if module is failure.event.running[-1] else f"{module.name}."
    return (
        f"self.{path_of(operand.parameter.removeprefix(prefix))}.device"
        if operand.parameter.startswith(prefix)
        else None
    )


def path_of(parameter: str) -> str:
    """A qualified name as Python writes it: `layers[0].weight`."""
    return re.sub(r"\.(\d+)(?=\.|\Z)", r"[\1]", parameter)


def _placed_by(script: Script, here: ast.AST, operand: Operand, line: int) -> str | None:
    """The expression by which the script gave a tensor its device in this scope.

    None where it is a literal or not bound at this line.
    """
    place = operand.moved or operand.made
    if not script.holds(place) or script.scope(place.line) is not here:
        return None
    call = script.expression(place)
    if not isinstance(call, ast.Call):
        return None
    given = given_by_name(call, "device")
    # What `to` made without moving it got another type from it.
    if given is None and called(call) in ("to", "cuda") and call.args and operand.moved is not None:
        given = call.args[0]
    names = [node.id for node in ast.walk(given) if isinstance(node, ast.Name)] if given is not None else []
    if (
        given is None
        or not names
        or isinstance(given, ast.Starred)
        or re.match(r"torch\.\w+\Z", script.text(given))
    ):
        return None  # a literal, or a type
    early, late = sorted((place.line, line))
    if not all(script.bound(name, here, early + (early == place.line), late) for name in names):
        return None
    return f'f"cuda:{{{script.text(given)}}}"' if called(call) == "cuda" else script.text(given)
