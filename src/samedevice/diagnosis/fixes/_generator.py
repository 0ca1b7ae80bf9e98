"""A random generator and the tensor that it draws for, on one device.

Must guarantee: what a generator that somebody made on the host draws stays the same numbers wherever they are
sent; a generator is made elsewhere only where its own line can name the device.
"""

from __future__ import annotations

import ast

from samedevice.diagnosis._failure import Failure
from samedevice.diagnosis.fixes._at_hand import device_at
from samedevice.diagnosis.fixes._constructed import told
from samedevice.diagnosis.fixes._edit import moved, script_diff, swapped, with_keyword
from samedevice.diagnosis.fixes._source import Script, called
from samedevice.diagnosis.fixes._spelling import device_text, spelled_at
from samedevice.diagnosis.fixes._target import code_of, is_reusable, named, told_by_function
from samedevice.events import Operand
from samedevice.findings import Fix
from samedevice.messages import Phrase
from samedevice.provenance.syntax import given_by_name


def generator_fixes(failure: Failure, script: Script | None, guilty: Operand | None) -> list[Fix[Phrase]]:
    """The generator on the tensor's device."""
    devices = [each.device for each in failure.event.operands if each.name != "generator"]
    if not devices:
        return []
    if (drawn := _drawn_there(failure, script)) is not None:
        return [drawn]
    made = [
        node
        for node in (script.nodes if script is not None else ())
        if isinstance(node, ast.Call) and called(node) == "Generator"
    ]
    if len(made) != 1 and (sent := _asked_and_sent(failure, script)) is not None:
        return [sent]
    if script is not None and not made and (given := _of_default(failure, script, devices[0])) is not None:
        return [given]
    if script is not None and len(made) > 1:
        made = _given_to(failure, script, made)
    remade = None if script is None or len(made) != 1 else _made_there(failure, script, made[0], devices[0])
    sent = _asked_and_sent(failure, script) or _sent_in_library(failure)
    found = [each for each in (remade, sent) if each is not None]
    if found:
        return sorted(found, key=lambda each: each.safety != "safe")
    at = failure.event.at
    other = next((each for each in failure.event.operands if each.name != "generator" and each.dtype), None)
    node = spelled_at(script, at, other) if script is not None and script.holds(at) and other else None
    device = device_text(script, node) if script is not None else None
    title = Phrase("fix.generator-like", device=device) if device is not None else None
    return [Fix(title or Phrase("fix.generator", device=named(devices[0], failure)), "check")]


def _made_there(failure: Failure, script: Script, old: ast.Call, device: str) -> Fix[Phrase] | None:
    """The call that makes the generator, on another device; None in code that others call, where nothing
    names the device.
    """
    given = given_by_name(old, "device") or (old.args[0] if old.args else None)
    asked = _asked_device(failure, script, old.lineno) or device_at(failure, script, device, old.lineno)
    if asked is None and (constructed := told(failure, script, old, device)) is not None:
        return constructed
    if asked is None and is_reusable(script, old.lineno):
        asked = told_by_function(script, old.lineno)
        if asked is None:
            return None
    text = asked or code_of(device, failure, script)
    changed = swapped(script, given, text) if given else with_keyword(script, old, "device", text)
    title = Phrase("fix.generator-like", device=asked) if asked else None
    return Fix(
        title or Phrase("fix.generator", device=named(device, failure)),
        "safe" if asked else "check",
        script_diff(script, changed),
    )


def _of_default(failure: Failure, script: Script, device: str) -> Fix[Phrase] | None:
    """A generator on the default device for a call of torch that was given none and drew on the host."""
    user = failure.event.user_at
    ran = script.expression(user) if script.holds(user) else None
    target = None if user is None else device_at(failure, script, device, user.line)
    if script.imports("torch") and "set_default_device(" in script.source:
        target = "torch.get_default_device()"
    if not isinstance(ran, ast.Call) or target is None:
        return None
    if any(each.arg in (None, "generator") for each in ran.keywords) or called(ran) not in _TAKES_GENERATOR:
        return None
    changed = with_keyword(script, ran, "generator", f"torch.Generator(device={target})")
    title = Phrase("fix.generator-like", device=target)
    return Fix(title, "safe", script_diff(script, changed))


_TAKES_GENERATOR = frozenset(("random_split", "RandomSampler", "DataLoader"))
"""What draws on the host where it is given no generator, whatever the default device is."""


def _of_sampler(failure: Failure, library: Script) -> Fix[Phrase] | None:
    """The only generator that the failing function of a library makes, and torch draws with, made on the
    default device.
    """
    at = failure.event.at
    home = library.scope(at.line) if library.holds(at) else library.tree
    made = [node for node in ast.walk(home) if isinstance(node, ast.Call) and called(node) == "Generator"]
    if home is library.tree or len(made) != 1 or made[0].args or made[0].keywords or "device" in at.call:
        return None
    if ast.unparse(made[0].func) != "torch.Generator":
        return None
    target = "torch.get_default_device()"
    diff = script_diff(library, with_keyword(library, made[0], "device", target))
    return Fix(Phrase("fix.generator-like", device=target), "safe", diff) if diff else None


def _sent_in_library(failure: Failure) -> Fix[Phrase] | None:
    """What the code of a library draws, drawn where its generator is and sent on; or its generator made where
    torch draws.
    """
    at = failure.event.at
    library = None if failure.by_user(at) else Script.read(at.file)
    sent = None if library is None else _asked_and_sent(failure, library) or _of_sampler(failure, library)
    if library is None or sent is None or not sent.diff:
        return None
    return Fix(Phrase("fix.patch", what=sent.title), "check", sent.diff, library.file)


def _given_to(failure: Failure, script: Script, made: list[ast.Call]) -> list[ast.Call]:
    """Of several calls that make a generator the one in the failing statement, or that which gave its value
    to what the failing call is given as the generator.
    """
    places = [each for each in (failure.event.user_at, failure.event.at) if script.holds(each)]
    found = [each for each in made for at in places if at.line in range(each.lineno, _last_line(each) + 1)]
    for place in places:
        words = (
            [script.text(word.value) for word in call.keywords if word.arg == "generator"]
            for call in script.find(place)
        )
        named = next(filter(None, words), [])  # of what ran first
        here = script.scope(place.line)
        for each in made if not found and len({*named}) == 1 else ():
            statement, scope = script.around(each), script.scope(each.lineno)
            targets = (
                [script.text(one) for one in statement.targets] if isinstance(statement, ast.Assign) else []
            )
            own = scope is here or (script.class_of(scope) is not None and named[0].startswith("self."))
            if named[0] in targets and own and script.class_of(scope) is script.class_of(here):
                found.append(each)
    return found


def _last_line(node: ast.expr) -> int:
    return node.end_lineno or node.lineno


_DRAWS = frozenset(("rand", "randn", "randint", "randperm"))
"""Factories of random numbers: without `device=` they draw on the default device, whatever the generator."""


def _drawn_there(failure: Failure, script: Script | None) -> Fix[Phrase] | None:
    """The factory that names no device, on that of the GPU's generator which it is given."""
    at = failure.event.at
    ran = script.expression(at) if script is not None and script.holds(at) else None
    own = next((each.device for each in failure.event.operands if each.name == "generator"), "")
    if script is None or not isinstance(ran, ast.Call) or called(ran) not in _DRAWS or "cuda" not in own:
        return None
    given = {each.arg: each.value for each in ran.keywords}
    if None in given or "device" in given or "out" in given or "generator" not in given:
        return None
    device = device_text(script, given["generator"])
    if device is None:
        return None
    diff = script_diff(script, with_keyword(script, ran, "device", device))
    title = Phrase("fix.drawn-on", function=f"torch.{called(ran)}", device=device)
    return Fix(title, "safe", diff)


_LIKE = frozenset(("rand_like", "randn_like", "randint_like"))
"""Factories that draw where another tensor is."""
_FILLED = frozenset(("empty_like", "zeros_like", "ones_like", "rand_like"))
"""Factories whose result a method then fills."""


def _asked_and_sent(failure: Failure, script: Script | None) -> Fix[Phrase] | None:
    """The numbers drawn on the generator's device, and sent to where they should have been made."""
    at = failure.event.at
    ran = script.expression(at) if script is not None and script.holds(at) else None
    if script is None or not isinstance(ran, ast.Call):
        return None
    given = {each.arg: each.value for each in ran.keywords}
    own = device_text(script, given.get("generator"))
    maker = _maker(ran)
    if own is None or maker is None or "out" in given:
        return None
    named = given_by_name(maker, "device")
    like = maker.args[0] if maker.args and called(maker) in _LIKE | _FILLED else None
    asked = device_text(script, like) if named is None else script.text(named)
    if asked is None:
        return None
    changed = with_keyword(script, maker, "device", own) if named is None else swapped(script, named, own)
    drawn = Script(script.file, changed)
    start = (ran.lineno, ran.col_offset)
    call = next(
        each
        for each in drawn.nodes
        if isinstance(each, ast.Call)
        and (each.lineno, each.col_offset) == start
        and called(each) == called(ran)
    )
    title = Phrase("fix.drawn-and-sent", generator=own, device=asked)
    diff = script_diff(script, moved(drawn, call, asked))
    return Fix(title, "safe", diff) if diff else None


def _maker(ran: ast.Call) -> ast.Call | None:
    """The call of torch that makes what a generator draws: the failing one itself, or what it fills."""
    if called(ran) in _DRAWS | _LIKE:
        return ran
    match ran.func:
        case ast.Attribute(value=ast.Call() as inner, attr=name) if name.endswith("_"):
            return inner if called(inner) in _FILLED else None
    return None


def _asked_device(failure: Failure, script: Script, line: int) -> str | None:
    """What the failing call gives as `device=`, where that means the same at a line of the script."""
    at = failure.event.at
    ran = script.expression(at) if script.holds(at) else None
    if not isinstance(ran, ast.Call):
        return None
    given = given_by_name(ran, "device")
    here = script.scope(line)
    if given is None or isinstance(given, ast.Constant):
        return None
    names = [node.id for node in ast.walk(given) if isinstance(node, ast.Name)]
    if not names or not (here is script.scope(at.line) or here is script.tree):
        return None
    scope_ends = at.line if here is script.scope(at.line) else line
    return script.text(given) if all(script.bound(each, here, line, scope_ends) for each in names) else None
