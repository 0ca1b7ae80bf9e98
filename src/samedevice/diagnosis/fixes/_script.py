"""Repairs of the user's own script, as diffs."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from samedevice.diagnosis._failure import FACTORY, Failure, made_text
from samedevice.diagnosis._kept import kept_beside_parameters
from samedevice.diagnosis._weigh import Verdict
from samedevice.diagnosis.fixes._along import along_fix
from samedevice.diagnosis.fixes._asked import asked_fix
from samedevice.diagnosis.fixes._at_hand import device_at
from samedevice.diagnosis.fixes._attached import attached_fix, container_fix, grown_fix, of_weight
from samedevice.diagnosis.fixes._borrowed import borrows
from samedevice.diagnosis.fixes._buffer import buffer_fix, renewed_fix
from samedevice.diagnosis.fixes._cached import cached_fix
from samedevice.diagnosis.fixes._called import called_fixes
from samedevice.diagnosis.fixes._combine import Change, changes_of, combined
from samedevice.diagnosis.fixes._constructed import constructed_fix
from samedevice.diagnosis.fixes._device_map import entry_fix, map_argument, map_literal
from samedevice.diagnosis.fixes._edit import (
    RANK_MAP,
    grouped,
    moved,
    redirected,
    reduced,
    script_diff,
    swapped,
    with_import,
    with_keyword,
    with_line_before,
    with_value,
)
from samedevice.diagnosis.fixes._generator import generator_fixes
from samedevice.diagnosis.fixes._keyed import keyed_fix
from samedevice.diagnosis.fixes._lasting import (
    indexes_another,
    lasting_fix,
    tensors_beside,
    unmoved_fix,
)
from samedevice.diagnosis.fixes._mapping import arguments_fix, mapping_fix
from samedevice.diagnosis.fixes._missed import missed_fix
from samedevice.diagnosis.fixes._order import copied_fix, order_fix
from samedevice.diagnosis.fixes._origin import origin_fix
from samedevice.diagnosis.fixes._parts import parts_fix
from samedevice.diagnosis.fixes._relocate import relocated
from samedevice.diagnosis.fixes._source import Script, called
from samedevice.diagnosis.fixes._spelling import device_text, spelled_at
from samedevice.diagnosis.fixes._target import (
    assigned,
    calls_of,
    code_of,
    model_name,
    named,
    own,
    partners,
    path_of,
    target_at,
    unites,
    wanted,
)
from samedevice.diagnosis.fixes._told import told_fix
from samedevice.diagnosis.fixes._unwritten import unwritten_fix
from samedevice.diagnosis.fixes._whole import whole_class_fix
from samedevice.diagnosis.paste import short_file
from samedevice.events import Event, EventKind, Operand, Place, Running, on_accelerator
from samedevice.findings import Fix, Safety
from samedevice.messages import Phrase, Several, Value
from samedevice.provenance.ownership import ownership
from samedevice.provenance.syntax import given_by_name

Repair = Callable[[Failure, Script | None, Operand | None], list[Fix[Phrase]]]


_LITERAL = re.compile(r"""["'](?:cpu|cuda(?::\d+)?)["']|\.cuda\(\d*\)""")
"""A device as source writes it down: right for this run, and wrong for the next machine. `.cpu()` is written
only where an operator itself asks for the host, which every machine has.
"""
_LONGEST_SHOWN = 60
"""Characters of an expression that a title shows."""
_CACHE = re.compile(r"\A(?:past_key_values?|layer_past|past|cache|cache_params|kv_cache|\w*Cache\w*)\Z")
"""What holds a cache that `sd.guard_cache` looks after."""


def script_fixes(failure: Failure, verdict: Verdict) -> tuple[Fix[Phrase], ...]:
    """What can be changed in the script, in the map, or in another file of the project, for this cause."""
    found, at, user = _in_script(failure, verdict), failure.event.at, failure.event.user_at
    if user is None or failure.by_user(at) or any(map(_decides, found)) or not ownership(user.file)(at.file):
        return found
    there = _in_script(replace(failure, event=replace(failure.event, user_at=at)), verdict)
    return there if any(map(_decides, there)) else found


def _in_script(failure: Failure, verdict: Verdict) -> tuple[Fix[Phrase], ...]:
    """What can be changed in the script, or in the map."""
    user = failure.event.user_at
    script = Script.read(user.file) if user is not None else None
    guilty = next((each for each in failure.event.operands if each.name == verdict.guilty), None)
    guilty = _follower(failure, guilty)
    fixes = []
    if failure.event.kind is EventKind.NONDETERMINISTIC_DEVICE:
        fixes.append(Fix(Phrase("fix.sorted-devices"), "safe"))
    told = failure.group is not None or failure.read_on_host  # what the operator itself wants, whoever erred
    for repair in (_extra,) if told else _REPAIRS.get(verdict.cause, ()):
        fixes += repair(failure, script, guilty)
    if (
        guilty is not None
        and script is not None
        and failure.placed_by_user(guilty)
        and failure.event.kind is not EventKind.UNMATERIALIZED  # a buffer would be on meta, too
        and not any(fix.diff for fix in fixes)
    ):
        buffer = renewed_fix(failure, script, guilty) or buffer_fix(failure, script, guilty)
        fixes = [buffer, *fixes] if buffer is not None else fixes
    once = None
    if failure.mismatch and not told:
        once = (
            keyed_fix(failure, script, guilty)
            or cached_fix(failure, script, guilty)
            or unmoved_fix(failure, script, guilty)
            or asked_fix(failure, script, guilty)
            or along_fix(failure, script, guilty)
            or lasting_fix(failure, script, guilty)
        )
        if once is None or once.title.key == "fix.moved-once" or not _is_sure(script, once):
            once = constructed_fix(failure, script, guilty) or told_fix(failure, script, guilty) or once
        missed = copied_fix(failure, script, guilty) or missed_fix(failure, script, guilty)
        if missed is not None and (once is None or once.title.key not in _KEPT_FOR_EACH):
            once, fixes = missed, [fix for fix in fixes if not _decides(fix)]
    weak = not fixes or not _decides(fixes[0]) or not _is_sure(script, fixes[0])
    if once is not None and (weak or _nearer(failure, once, fixes[0])):
        fixes = [once, *fixes]
    received = failure.group is not None  # a copy made in the call would receive it, and be lost
    fixes = [_checked(fix, script) for fix in fixes]
    sure = any(fix.diff and fix.safety == "safe" for fix in fixes)
    # A replica meets weights of another one: what it was given is right where it is.
    of_original = verdict.cause == "data-parallel-replica-device" and (guilty is None or bool(guilty.role))
    if not received and not sure and verdict.cause != "dispatched-model-moved" and not of_original:
        found = _placed(failure, script, guilty)
        if any(fix.diff for fix in fixes):
            found = [fix for fix in found if fix.safety == "safe" or fix.file is not None]
        fixes = _beside(fixes, found)
    fixes = _map_first(failure, script, [_checked(fix, script) for fix in fixes])
    origin = origin_fix(failure, guilty) if failure.mismatch and not told else None
    if origin is not None:
        here = [fix for fix in fixes if _decides(fix) and fix.file in (None, origin.file)]
        fixes = [*here, origin, *(fix for fix in fixes if fix not in here)]
    if verdict.cause == "block-split-across-devices" or _left_by_a_cut(failure, verdict):
        by_hand = script is not None and not isinstance(map_argument(script), ast.Constant)
        whole = whole_class_fix(failure, script, by_hand)
        fixes = [*([] if whole is None else [whole]), *fixes]
    unique = {(fix.title, fix.diff): fix for fix in fixes}
    return tuple(unique.values())[:4]


def _left_by_a_cut(failure: Failure, verdict: Verdict) -> bool:
    """Whether a map reaches parts of the running module, and not the buffer that this owns itself."""
    return verdict.cause == "device-map-incomplete-or-wrong" and failure.cut_here


def _map_first(failure: Failure, script: Script | None, fixes: list[Fix[Phrase]]) -> list[Fix[Phrase]]:
    """The fixes, with the map in front: of the script's own where it cuts a block of the script, any where
    what meets was computed by parts that it sent apart. It decided.
    """
    computed = all(not each.role for each in failure.event.operands)
    whole = [
        each
        for each in fixes
        if each.title.key == "fix.device-map-moves"
        and (computed or (each.diff and script is not None and script.holds(failure.event.at)))
    ]
    return [*whole, *(each for each in fixes if each not in whole)]


def _follower(failure: Failure, guilty: Operand | None) -> Operand | None:
    """The operand that has to follow: what is on the host follows what is on a GPU; where nothing else
    tells, what the call brought follows what was there before.
    """
    if not failure.mismatch or failure.group is not None or failure.read_on_host:
        return guilty
    if guilty is not None:
        met = partners(failure, guilty)
        left = [each for each in met if each.device == "cpu"]
        if on_accelerator(guilty.device) and len(left) == 1 == len(met) and not guilty.role:
            return left[0] if not left[0].role else guilty
        return guilty
    kept = [
        each for each in failure.event.operands if each.dtype and (each.role or failure.from_attribute(each))
    ]
    brought = [each for each in failure.event.operands if each.dtype and each not in kept]
    return brought[0] if len(brought) == 1 and kept and failure.two_gpus else None


_AT_USE = ("fix.at-use", "fix.bring", "fix.parts-at-use")
"""Changes that move a copy each time that the statement runs."""


_KEPT_FOR_EACH = ("fix.keyed", "fix.cached")
"""Changes that keep one tensor for each device."""


def _nearer(failure: Failure, fix: Fix[Phrase], other: Fix[Phrase]) -> bool:
    """Whether a fix keeps one tensor for each device, or makes it where it belongs and the other one sends it
    there afterwards.
    """
    if fix.title.key in (*_KEPT_FOR_EACH, "fix.sent-along"):
        return True
    if failure.in_model and (fix.title.key, other.title.key) == ("fix.input-to", "fix.made-on"):
        return True  # the model is right, and its caller left something behind
    return fix.title.key == "fix.made-on" and fix.safety == "safe" and other.title.key == "fix.input-to"


def _is_sure(script: Script | None, fix: Fix[Phrase]) -> bool:
    """Whether a fix is safe, and reads no variable of the script in a function that did not read it."""
    if script is None or fix.diff is None or fix.file not in (None, script.file):
        return fix.safety == "safe"
    text, refused = combined(script.source, [fix.diff])
    return fix.safety == "safe" and (bool(refused) or not borrows(script, text))


def _decides(fix: Fix[Phrase]) -> bool:
    """Whether a fix is a sure change where something is decided."""
    return fix.diff is not None and fix.safety == "safe" and fix.title.key not in _AT_USE


def _placed(failure: Failure, script: Script | None, guilty: Operand | None) -> list[Fix[Phrase]]:
    """What puts the operand where it has to be, whatever the cause is called: where it was made, or used.

    In the code of a library it is a patch.
    """
    if guilty is None:
        guilty = failure.odd(*failure.plain)
    if guilty is None or not failure.mismatch:
        return []
    if script is not None and script.holds(failure.event.at):
        found = _at_use(failure, script, guilty)
        if not found and _handed_down(failure, guilty):
            found = _used(failure, script, guilty)
        if not found and guilty.role and not _written(failure, guilty):
            found = _to_weight(failure, script, guilty) or _used(failure, script, guilty)
        return found
    if script is not None and (given := _at_call(failure, script, guilty)):
        return given
    library = None if failure.by_user(failure.event.at) else Script.read(failure.event.at.file)
    if library is None:
        return []
    found = [*_made(failure, library, guilty), *_at_use(failure, library, guilty)]
    if not found and guilty.role and not _written(failure, guilty):
        found = _used(failure, library, guilty)
    user = failure.event.user_at
    if user is not None and ownership(user.file)(library.file):
        return [_checked(fix, library) for fix in found]  # another file of the project
    return [
        replace(
            fix,
            title=Phrase("fix.patch", what=fix.title),
            safety="check",  # whether the library or its caller is at fault, its authors say
            file=library.file,
        )
        for fix in found
        if _checked(fix, library).safety == "safe"
    ][:2]


def _handed_down(failure: Failure, guilty: Operand) -> bool:
    """Whether it is a buffer that a function got as an argument: it serves several layers, a copy follows."""
    local = guilty.local or ""
    return guilty.role == "buffer" and local.isidentifier() and failure.flow.is_argument(local)


def _at_call(failure: Failure, script: Script, guilty: Operand) -> list[Fix[Phrase]]:
    """What the script gave to the model by a keyword, moved to where another argument is."""
    met = {each.device for each in partners(failure, guilty)}
    if guilty.from_argument is None or len(met) != 1:
        return []
    there = [name for name, device in failure.event.arguments if device in met]
    for place in calls_of(failure, script):
        for call in script.find(place):
            given = {each.arg: each.value for each in call.keywords if each.arg}
            beside = [text for name in there if (text := device_text(script, given.get(name))) is not None]
            node = given.get(guilty.from_argument)
            if node is None or not beside:
                continue
            target = beside[0]
            diff = script_diff(script, moved(script, node, target))
            title = Phrase("fix.input-to", operand=guilty.from_argument, device=target)
            return [Fix(title, "safe" if unites(failure, guilty) else "check", diff)] if diff else []
    return []


def _to_weight(failure: Failure, script: Script, weight: Operand) -> list[Fix[Phrase]]:
    """What meets a weight on a GPU moved to it: the other way round, the weight would be copied each time."""
    others = partners(failure, weight)
    if not on_accelerator(weight.device) or len(others) != 1 or others[0].role:
        return []
    met = others[0]
    return _used(failure, script, replace(met, local=met.local or failure.expression(met)))


def _made(failure: Failure, script: Script, guilty: Operand) -> list[Fix[Phrase]]:
    """The operand made where it has to be, in the function that fails."""
    source, at = _source(failure, guilty), failure.event.at
    place = source.moved or source.made
    if not script.holds(place) or not script.holds(at) or place.line > at.line:
        return []
    if script.scope(place.line) is not script.scope(at.line):
        return []  # it makes others, too
    if (target := target_at(failure, script, guilty, place.line)) is None:
        return []
    diff = _move(failure, script, source, target.text, None)
    if diff is None or not target.derived or not unites(failure, guilty):
        return []
    title = Phrase("fix.made-on", operand=failure.written(guilty), device=target.title)
    return [Fix(title, "safe", diff)]


def _beside(fixes: list[Fix[Phrase]], found: list[Fix[Phrase]]) -> list[Fix[Phrase]]:
    """What was found in front of what is no sure change, and in the place of words that say the same."""
    words = "fix.library" if found else ""
    left = [fix for fix in fixes if fix.title.key != words]
    if not any(fix.file is not None for fix in found):
        return [*found, *left]
    own = [fix for fix in left if fix.safety == "safe"]
    return [*own, *found, *(fix for fix in left if fix not in own)]


def _checked(fix: Fix[Phrase], script: Script | None) -> Fix[Phrase]:
    """A fix with the file that it changes; one that writes a device down is never safe."""
    if fix.diff is None or script is None or fix.file is not None:
        return fix
    literal = bool(_added(changes_of(fix.diff)))
    return replace(fix, file=script.file, safety="check" if literal and fix.safety == "safe" else fix.safety)


def _added(changes: Sequence[Change]) -> list[str]:
    """What lines have that those before have not, so that a device that was written there, or in a line that
    has only changed its place, is no new one.
    """
    before = Counter(_LITERAL.findall("".join(line for each in changes for line in each.old)))
    after = Counter(_LITERAL.findall("".join(line for each in changes for line in each.new)))
    return [literal for literal, count in after.items() if count > before[literal]]


def fix_at_use(event: Event, operand: str) -> Fix[Phrase] | None:
    """The operand moved where the script's own failing statement uses it.

    None when the statement is not the script's.
    """
    script = Script.read(event.user_at.file) if event.user_at is not None else None
    stale = next((each for each in event.operands if each.name == operand), None)
    return next(iter(_at_use(Failure(event), script, stale)), None)


def _inputs(failure: Failure, script: Script | None, guilty: Operand | None) -> list[Fix[Phrase]]:
    """Inputs to the device of the first weight."""
    if guilty is not None and guilty.role and script is not None and script.holds(failure.event.at):
        if there := _to_weight(failure, script, guilty):
            return there
    if guilty is not None and not failure.op.startswith("embedding"):
        return _to_partner(
            failure, script, guilty, "fix.input-to", guilty.local or guilty.argument or guilty.name
        )
    weight = next((each for each in failure.weights if each.name == "weight"), None)
    if weight is None or guilty is None:
        return []
    wrapped = (weight.parameter or "").startswith("module.")  # by what has no methods of the model
    of_library = "/transformers/" in failure.event.at.file
    transformers = of_library and not wrapped and not _of_script(failure, script)
    key = "fix.inputs-to-embedding" if transformers else "fix.inputs-to-weight"
    model = model_name(failure, script)
    target = None
    if model is not None:
        named = f"{model}.{path_of(weight.parameter)}.device" if weight.parameter else None
        target = f"{model}.get_input_embeddings().weight.device" if transformers else named
    ids = next((each for each in failure.event.operands if each.name == "indices"), guilty)
    whole = mapping_fix(failure, script, ids, model, target, transformers) if model is not None else None
    if whole is None and not _of_script(failure, script):
        whole = arguments_fix(failure, script, ids, weight, transformers)
    if whole is not None:
        return [whole]
    diff = _move(failure, script, ids, target, model) or _move_batch(failure, script, target, model)
    fixes = [Fix(Phrase(key, weight=weight.parameter or "weight"), "safe", diff)]
    if weight.tied and transformers:
        fixes += [_one_device(script), Fix(Phrase("fix.one-visible"), "check")]
    return fixes


def _of_script(failure: Failure, script: Script | None) -> bool:
    """Whether the outermost module is of a class of the script.

    It need not have the methods of a library's models.
    """
    kind = failure.event.running[-1].kind if failure.event.running else ""
    classes = (
        (node for node in ast.walk(script.tree) if isinstance(node, ast.ClassDef))
        if script is not None
        else ()
    )
    return any(node.name == kind for node in classes)


def _move_batch(failure: Failure, script: Script | None, target: str | None, model: str | None) -> str | None:
    """A diff of the line that moves the batch which the model is called with.

    It serves where a library's own code did the move.
    """
    if script is None or target is None or model is None or (made := script.assignment(model)) is None:
        return None
    for place in calls_of(failure, script):
        for call in script.find(place):
            for node in [*call.args, *(keyword.value for keyword in call.keywords)]:
                name = node.value if isinstance(node, ast.Attribute) else node
                given = script.assignment(name.id) if isinstance(name, ast.Name) else None
                if given is None or given.lineno < made.lineno or not isinstance(given.value, ast.Call):
                    continue
                if called(given.value) in ("to", "cuda") and isinstance(given.value.func, ast.Attribute):
                    return script_diff(script, redirected(script, given.value, target))
    return None


def _one_device(script: Script | None) -> Fix[Phrase]:
    """The whole model on one device."""
    diff = None
    if script is not None and (found := map_argument(script)) is not None:
        diff = script_diff(script, swapped(script, found, '{"": "cuda:0"}'))
    return Fix(Phrase("fix.one-device"), "check", diff)


def _extra(failure: Failure, script: Script | None, guilty: Operand | None) -> list[Fix[Phrase]]:
    """The operand to the device of what it meets."""
    if guilty is None:
        return []
    if failure.group is not None:
        return _to_group(failure, script, guilty, failure.group)
    if failure.read_on_host:
        return _to_host(failure, script)
    if failure.parted(guilty) is not None and (used := _at_use(failure, script, guilty)):
        return used  # where it was made, it follows what is in its place
    if not partners(failure, guilty) or not failure.placed_by_user(guilty):
        return []
    if failure.entry == guilty.device or "self.device" in failure.code:
        return _in_library(failure, guilty)  # whatever the script does, it would be brought back
    if (buffer := renewed_fix(failure, script, guilty) or buffer_fix(failure, script, guilty)) is not None:
        return [buffer]
    key = "fix.input-to" if guilty.moved is not None or guilty.argument else "fix.made-on"
    return _to_partner(failure, script, guilty, key, guilty.argument or failure.written(guilty))


def _to_host(failure: Failure, script: Script | None) -> list[Fix[Phrase]]:
    """What the operator reads on the host, brought there in the failing statement."""
    at = failure.event.at
    if script is None or not script.holds(at):
        return []
    for operand in failure.read_on_host:
        node = spelled_at(script, at, replace(operand, local=failure.expression(operand)))
        if node is not None:
            text = f"{grouped(script.text(node))}.cpu()"
            diff = script_diff(script, swapped(script, node, text))
            return [Fix(Phrase("fix.to-host", operand=_shown(script, node, operand)), "safe", diff)]
    return []


def _to_group(failure: Failure, script: Script | None, guilty: Operand, group: Operand) -> list[Fix[Phrase]]:
    """A tensor of a collective to the GPU of its process group."""
    if not failure.placed_by_user(guilty):
        return []
    place, hand = guilty.moved or guilty.made, None
    if script is not None and script.holds(place):
        hand = device_at(failure, script, group.device, place.line)
    diff = _move(failure, script, guilty, hand or code_of(group.device, failure, script), None)
    key = "fix.input-to" if guilty.moved is not None or guilty.argument else "fix.made-on"
    return [
        Fix(
            Phrase(
                key,
                operand=guilty.argument or failure.written(guilty),
                device=hand or named(group.device, failure),
            ),
            "safe",
            diff,
        )
    ]


def _to_partner(
    failure: Failure, script: Script | None, guilty: Operand, key: str, operand: str
) -> list[Fix[Phrase]]:
    """The operand made on, or moved to, the device of what it meets.

    That is done where it is made if a name there tells, else where it is used.
    """
    source = _source(failure, guilty)
    place = source.moved or source.made
    anew = script is not None and script.holds(place) and not _renews(script, place)
    target = target_at(failure, script, guilty, place.line) if anew and place is not None else None
    diff = _move(failure, script, source, target.text, None) if target is not None else None
    if (
        script is not None
        and diff is not None
        and target is not None
        and (target.derived or own(partners(failure, guilty)[0].device, failure))
    ):
        sure = unites(failure, guilty) and not indexes_another(failure, script, guilty)
        return [
            Fix(
                Phrase(key, operand=operand, device=target.title),
                "safe" if sure else "check",
                diff,
            )
        ]
    if used := [fix for fix in _at_use(failure, script, guilty) if fix.safety == "safe"]:
        return used
    device = target.title if target is not None else partners(failure, guilty)[0].device
    return [Fix(Phrase(key, operand=operand, device=device), "check", diff)]


def _renews(script: Script, place: Place) -> bool:
    """Whether a statement gives an attribute a value computed from the one it had: the next such value would
    be computed from two devices.
    """
    statement = script.statement(place)
    if not isinstance(statement, ast.Assign) or not isinstance(statement.targets[0], ast.Attribute):
        return False
    kept = script.text(statement.targets[0])
    return any(
        script.text(each) == kept for each in ast.walk(statement.value) if isinstance(each, ast.Attribute)
    )


def _source(failure: Failure, guilty: Operand) -> Operand:
    """What has to be made elsewhere.

    The operand itself, or what the script computed it from, which other statements may read, too.
    """
    if guilty.moved is not None or guilty.local or FACTORY.search(made_text(guilty)):
        return guilty
    at = failure.event.at
    left = [
        part
        for part in guilty.ingredients
        if part.device == guilty.device and part.role is None and part.moved is None
    ]
    # A mask chose from it, and is not what it was computed from.
    left = [part for part in left if part.dtype != "bool" or guilty.dtype == "bool"]
    for part in left:
        if FACTORY.search("" if part.made is None else part.made.call or part.made.code):
            return replace(guilty, local=part.name, made=part.made)
    for part in left:
        made = part.made
        if (
            part.name.isidentifier()
            and made is not None
            and (made.file, made.function) == (at.file, at.function)
            and made.line != at.line
        ):
            return replace(guilty, local=part.name, made=made)
    return guilty


def _cache(failure: Failure, script: Script | None, guilty: Operand | None) -> list[Fix[Phrase]]:
    """The cache itself to the layer that uses it.

    An index that serves caches on several GPUs stays on the host, or is library code.
    """
    if guilty is None or guilty.holder is not None:
        return [*_extra(failure, script, guilty), *_guarded(failure, guilty)]
    if failure.op == "index" and failure.placed_by_user(guilty):
        diff = _move(failure, script, guilty, '"cpu"', None)
        return [
            Fix(
                Phrase("fix.made-on", operand=guilty.argument or failure.written(guilty), device="cpu"),
                "safe",
                diff,
            )
        ]
    return _in_library(failure, guilty)


def _guarded(failure: Failure, guilty: Operand | None) -> list[Fix[Phrase]]:
    """A guard on a block that is called by itself, as a server does, and got the cache as an argument."""
    outermost = failure.event.running[-1].kind if failure.event.running else ""
    if (
        guilty is None
        or not re.search(r"Block|Layer|Attention", outermost)
        or not _CACHE.search(guilty.holder or "")
    ):
        return []
    return [Fix(Phrase("fix.guard-cache", block=outermost), "safe")]


def _labels(failure: Failure, script: Script | None, guilty: Operand | None) -> list[Fix[Phrase]]:
    """Labels to the logits."""
    if guilty is None:
        return []
    logits = next((each for each in failure.event.operands if each.device != guilty.device), None)
    if logits is None:
        return []
    name = guilty.local or guilty.argument or failure.written(guilty)
    if guilty.role:
        return _whole_model(failure, script, guilty)
    fixes = _at_use(failure, script, guilty)
    if not fixes:
        if failure.entry == guilty.device and not failure.by_user(failure.event.at):
            return _in_library(failure, guilty)  # the outermost hook would bring it back
        placed = failure.placed_by_user(guilty)
        fixes = _to_partner(failure, script, guilty, "fix.labels", name) if placed else []
        fixes = fixes or [
            Fix(Phrase("fix.labels", operand=name, device=named(logits.device, failure)), "check")
        ]
    return fixes


def _loaded(failure: Failure, script: Script | None, guilty: Operand | None) -> list[Fix[Phrase]]:
    """`map_location` for `torch.load`."""
    if guilty is None or not partners(failure, guilty):
        return []
    diff, target = None, None
    place = guilty.moved or guilty.made
    if script is not None and (replaced := _as_replaced(script, guilty)) is not None:
        return [replaced]
    if script is not None and script.holds(place):
        target = target_at(failure, script, guilty, place.line)
        for call in script.find(place):
            given = given_by_name(call, "map_location")
            if target is None or called(call) != "load" or (given is not None and not target.derived):
                continue
            diff = script_diff(script, with_value(script, call, "map_location", target.text))
            break
    safety: Safety = (
        "safe"
        if diff is not None and target is not None and target.derived and unites(failure, guilty)
        else "check"
    )
    device = target.text if target is not None else f'"{partners(failure, guilty)[0].device}"'
    return [Fix(Phrase("fix.map-location", device=device), safety, diff)]


def _as_replaced(script: Script, guilty: Operand) -> Fix[Phrase] | None:
    """Weights that `load_state_dict(..., assign=True)` put in the place of others, loaded to where those
    were.
    """
    place = None if guilty.decision is None else guilty.decision.at
    if not guilty.role or not script.holds(place):
        return None
    here = script.scope(place.line)
    loads = [each for each in script.find(place) if called(each) == "load"]
    takers = [
        node.func.value
        for node in ast.walk(here)
        if isinstance(node, ast.Call)
        and called(node) == "load_state_dict"
        and isinstance(node.func, ast.Attribute)
        and any(each.arg == "assign" for each in node.keywords)
    ]
    if not loads or len(takers) != 1:
        return None
    owner = script.text(takers[0])
    if not script.bound(owner, here, place.line, takers[0].lineno):
        return None
    device = f"next({owner}.parameters()).device"
    given = given_by_name(loads[0], "map_location")
    changed = (
        with_keyword(script, loads[0], "map_location", device)
        if given is None
        else swapped(script, given, device)
    )
    diff = script_diff(script, changed)
    return Fix(Phrase("fix.map-location", device=device), "safe", diff) if diff else None


def _moved(failure: Failure, script: Script | None, guilty: Operand | None) -> list[Fix[Phrase]]:
    """No move after the dispatch."""
    place = guilty.moved if guilty else None
    diff = None
    if script is not None and (late := _late_move(failure, script)) is not None:
        place = late
    if script is not None and not script.holds(place):
        place = _move_of(script, model_name(failure, script)) or place
    if script is not None and script.holds(place):
        call = next((each for each in script.find(place) if called(each) in ("to", "cuda", "cpu")), None)
        if call is not None and isinstance(call.func, ast.Attribute):
            diff = script_diff(script, reduced(script, call, call.func.value))
    if place is None:
        return []
    return [
        Fix(
            Phrase("fix.no-move", where=f"{_file(script, place)}:{place.line}"),
            "safe" if diff else "check",
            diff,
        )
    ]


def _late_move(failure: Failure, script: Script) -> Place | None:
    """The line of the script that moved the weights last."""
    for weight in failure.weights:
        newest = weight.decision
        for place in (newest.at, newest.user_at) if newest is not None and newest.kind == "placed" else ():
            if script.holds(place) and any(
                called(call) in ("to", "cuda", "cpu") for call in script.find(place)
            ):
                return place
    return None


def _file(script: Script | None, place: Place) -> str:
    """A file of an installed package as it is installed, another one by its own name."""
    own = (script is not None and place.file == script.file) or Path(short_file(place.file)).is_absolute()
    return Path(place.file).name if own else short_file(place.file)


def _move_of(script: Script, model: str | None) -> Place | None:
    """The only line of the script that moves the model."""
    found = [
        node
        for node in ast.walk(script.tree)
        if isinstance(node, ast.Call)
        and called(node) in ("to", "cuda")
        and isinstance(node.func, ast.Attribute)
        and isinstance(node.func.value, ast.Name)
        and node.func.value.id == model
    ]
    return Place(script.file, found[0].lineno, "") if len(found) == 1 else None


_LOADS = re.compile(r"\b(?:from_\w+|load\w*)\(")
"""A call that reads a model from a file."""


def _has_to(script: Script, made: ast.expr) -> bool:
    """Whether what a line makes may have a method `to`: a class of the script without a base has none, unless
    it is written there.
    """
    name = called(made) if isinstance(made, ast.Call) else None
    classes = [] if name is None else script.classes_of(name)
    return all(each.bases or any(getattr(part, "name", "") == "to" for part in each.body) for each in classes)


def _whole_model(failure: Failure, script: Script | None, guilty: Operand | None) -> list[Fix[Phrase]]:
    """The model to where its inputs are."""
    weight = guilty or next((each for each in failure.weights if each.device == "cpu"), None)
    if weight is None or not any(on_accelerator(each.device) for each in partners(failure, weight)):
        return []
    contained = container_fix(failure, script)
    kept = contained if contained is not None and contained.diff else attached_fix(failure, script, weight)
    if (kept := kept or grown_fix(failure, script, weight) or contained) is not None:
        return [kept]
    newest, *before = weight.lineage or (None,)
    if any(newest and each.name == newest.name and on_accelerator(each.device) for each in before):
        return []  # it was there, and something took it away again
    made = None if script is None else _made_of(failure, script)
    from_file = weight.decision is not None and weight.decision.kind == "outside"
    if from_file and made is not None and not _LOADS.search(ast.unparse(made)):
        made = None  # the model that runs came out of a file, it is not the one that this line makes
    if script is not None and made is not None and not _has_to(script, made):
        return []  # an object that keeps layers, and is none
    diff, target = None, None
    if script is not None and made is not None:
        made = _handed_out(script, made)
        target = target_at(failure, script, weight, made.lineno)
        if target is not None and script.text(made).endswith(f".to({target.text})"):
            return []  # it was sent there, and something of it did not come along
        if target is not None:
            diff = script_diff(script, moved(script, made, target.text))
    device = target.text if target is not None else f'"{partners(failure, weight)[0].device}"'
    left = [each for each in failure.event.operands if each.device == weight.device]
    sure = target is not None and target.derived and all(each.role or of_weight(each) for each in left)
    return [Fix(Phrase("fix.model-to", device=device), "safe" if sure and diff else "check", diff)]


def _plain_container(failure: Failure, script: Script | None, guilty: Operand | None) -> list[Fix[Phrase]]:
    """What a module keeps in a plain container, made parts of it: replicas get them in no other way."""
    fix = container_fix(failure, script, beside=False)
    return [fix] if fix is not None and fix.diff else []


def _unwritten(failure: Failure, script: Script | None, guilty: Operand | None) -> list[Fix[Phrase]]:
    """The device out of the helper that writes it down."""
    fix = unwritten_fix(failure, script, guilty)
    return [] if fix is None else [fix]


def _metric(failure: Failure, script: Script | None, guilty: Operand | None) -> list[Fix[Phrase]]:
    """The module that keeps the state, moved as the model is."""
    return _whole_model(failure, script, guilty) if guilty is not None and guilty.role else []


def _made_of(failure: Failure, script: Script) -> ast.expr | None:
    """The expression that makes the outermost module: the only call of its class, with the methods called on
    what it gives, or else the value of the variable that the failing call is made on.
    """
    kind = failure.event.running[-1].kind if failure.event.running else None
    calls = [
        node for node in ast.walk(script.tree) if isinstance(node, ast.Call) and kind and called(node) == kind
    ]
    if len(calls) == 1:
        return _chained(script, calls[0])
    model = model_name(failure, script)
    given = script.assignment(model) if model is not None else None
    return None if given is None else given.value


def _chained(script: Script, made: ast.expr) -> ast.expr:
    """An expression with the methods that are called on what it gives."""
    outer = {
        id(node.func.value): node
        for node in script.nodes
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
    }
    while (longer := outer.get(id(made))) is not None:
        made = longer
    return made


def _handed_out(script: Script, made: ast.expr) -> ast.expr:
    """What makes a model, or the only call of the function that does nothing but give it back."""
    statement, home = script.around(made), script.scope(made.lineno)
    given = isinstance(statement, ast.Return) and statement.value is made
    if not given or not isinstance(home, ast.FunctionDef) or script.class_of(home) is not None:
        return made
    arguments = home.args
    if arguments.args or arguments.kwonlyargs or arguments.vararg or arguments.kwarg:
        return made  # it may be given the device
    named = [node for node in script.nodes if isinstance(node, ast.Name) and node.id == home.name]
    calls = [node for node in script.nodes if isinstance(node, ast.Call) and node.func in named]
    return _chained(script, calls[0]) if len(calls) == len(named) == 1 else made


def _chosen(failure: Failure, script: Script | None, guilty: Operand | None) -> list[Fix[Phrase]]:
    """Each rank chooses its GPU in front of the only line that makes the process group."""
    started = [
        node
        for node in (ast.walk(script.tree) if script is not None else ())
        if isinstance(node, ast.Call) and called(node) == "init_process_group"
    ]
    statement = script.around(started[0]) if script is not None and len(started) == 1 else None
    if script is None or statement is None:
        return []
    rank = given_by_name(started[0], "rank")
    if isinstance(rank, ast.Name):
        index = f"{rank.id} % torch.cuda.device_count()"
    else:
        index = 'int(os.environ["LOCAL_RANK"])'
    changed = with_line_before(script, statement, f"torch.cuda.set_device({index})")
    changed = with_import(changed, "torch")
    diff = script_diff(script, changed if isinstance(rank, ast.Name) else with_import(changed, "os"))
    return [Fix(Phrase("fix.set-device"), "safe", diff)]


def _ordered(failure: Failure, script: Script | None, guilty: Operand | None) -> list[Fix[Phrase]]:
    """The model moved before the optimizer that has its parameters."""
    fix = order_fix(script)
    return [] if fix is None else [fix]


def _adapted(failure: Failure, script: Script | None, guilty: Operand | None) -> list[Fix[Phrase]]:
    """A module that joined the model late, moved to it."""
    fix = attached_fix(failure, script, guilty) or grown_fix(failure, script, guilty)
    outer = failure.event.running[-1] if failure.event.running else None
    if fix is None and guilty is not None and outer is not None and _on_one_device(outer, guilty):
        return _whole_model(failure, script, guilty)
    if fix is None and script is not None and guilty is not None and guilty.role is not None:
        return _used(failure, script, guilty)
    return [] if fix is None else [fix]


def _on_one_device(model: Running, weight: Operand) -> bool:
    """Whether a model's constructor made a weight of its own, and all else of it is on one device: then the
    whole of it can go there.
    """
    newest = weight.decision
    built = newest is not None and newest.at is not None and newest.at.function == "__init__"
    own = weight.role == "parameter" and "." not in (weight.parameter or ".")
    return built and own and len({*model.below} - {weight.device}) == 1


def _together(failure: Failure, script: Script | None, guilty: Operand | None) -> list[Fix[Phrase]]:
    """A map that keeps the cut block whole."""
    cut = failure.block
    if cut is None or not failure.event.device_map:
        return []
    whole = cut.name == cut.kind
    prefix = "" if whole else cut.name
    inside = [
        name
        for name in failure.event.device_map
        if name == prefix or name.startswith(f"{prefix}.") or not prefix
    ]
    if not inside:
        return []
    repaired = _kept_whole(failure, guilty, prefix, inside)
    if (
        len(set(repaired.values())) == len(set(failure.event.device_map.values()))
        and repaired == failure.event.device_map
    ):
        return []
    whole_block = bool(prefix) and len({repaired[name] for name in inside}) == 1
    if whole_block:  # one entry, whose hook takes its inputs along
        kept_whole = {name: where for name, where in repaired.items() if name not in inside}
        at = list(repaired).index(inside[0])
        items = list(kept_whole.items())
        repaired = dict([*items[:at], (prefix, repaired[inside[0]]), *items[at:]])
    text = "{" + ", ".join(f'"{name}": "{where}"' for name, where in repaired.items()) + "}"
    diff = None
    if script is not None and (found := map_literal(script, failure)) is not None:
        diff = script_diff(script, swapped(script, found, _laid_out(script, found, repaired, text)))
    module = cut.name
    if diff is None:
        return [Fix(Phrase("fix.device-map", map=text, module=module), "check", None)]
    old = failure.event.device_map
    moves = [f'"{name}": "{to}"' for name, to in repaired.items() if old.get(name) != to]
    named: list[Value] = [*moves[:_MOST_MOVES]]
    if len(moves) > _MOST_MOVES:
        named.append(Phrase("note.more", count=len(moves) - _MOST_MOVES))
    title = Phrase("fix.device-map-moves", moves=Several(tuple(named)))
    return [Fix(title, "safe" if whole_block else "check", diff)]


def _kept_whole(
    failure: Failure, guilty: Operand | None, prefix: str, inside: Sequence[str]
) -> dict[str, str]:
    """The device map with the parts of a cut block on one device; `inside` are its entries of that block."""
    parents = _direct_parts(failure, prefix)
    kept = next(
        (
            each.device
            for each in failure.event.operands
            if guilty is not None and each.device != guilty.device
        ),
        None,
    )
    met = {each.device for each in failure.event.operands}
    # Inputs arrive where the outermost hook sends them, and so does what is made from them.
    device = (
        failure.entry
        if failure.entry in met and failure.entry is not None
        else kept or failure.event.device_map[inside[0]]
    )
    repaired = {
        name: (device if name in parents else where) for name, where in failure.event.device_map.items()
    }
    left = {where for name, where in failure.event.device_map.items() if repaired[name] != where}
    for name in _HEADS & repaired.keys():
        if repaired[name] in left:  # a head that is tied to the embedding, as most are, stays with it
            repaired[name] = device
    return repaired


def _laid_out(script: Script, found: ast.expr, repaired: dict[str, str], text: str) -> str:
    """A map as the one that it replaces is written: an entry a line, or all in one."""
    if not isinstance(found, ast.Dict) or not found.keys or found.lineno == found.end_lineno:
        return text
    first, indent = found.keys[0], script.lines[found.lineno - 1]
    if first is None or first.lineno == found.lineno:
        return text
    outer = indent[: len(indent) - len(indent.lstrip())]
    inner = " " * first.col_offset
    entries = "".join(f'{inner}"{name}": "{where}",\n' for name, where in repaired.items())
    return f"{{\n{entries}{outer}}}"


_MOST_MOVES = 3
"""Entries of a device map that a title names; the diff has all."""


_HEADS = {"lm_head", "embed_out", "output", "model.lm_head", "language_model.lm_head"}


def _direct_parts(failure: Failure, prefix: str) -> list[str]:
    """Keys of the map that hold parts of the cut module.

    All of a small one, what is beside the operands of a large one.
    """
    keys = [
        name
        for name in failure.event.device_map
        if not prefix or name == prefix or name.startswith(f"{prefix}.")
    ]
    touched = {device for operand in failure.event.operands for device in (operand.device,)}
    return [name for name in keys if failure.event.device_map[name] in touched]


def _unmapped(failure: Failure, script: Script | None, guilty: Operand | None) -> list[Fix[Phrase]]:
    """The missing name in the map."""
    if failure.left_out is not None and guilty is not None and not guilty.parameter:
        return [entry_fix(failure, script, *failure.left_out)]
    if guilty is None or not guilty.parameter:
        return []
    known = guilty.parameter in failure.event.device_map
    name = guilty.parameter if known else guilty.parameter.rpartition(".")[0] or guilty.parameter
    device = next((each.device for each in failure.event.operands if each.device != guilty.device), "cuda:0")
    if known:
        return [Fix(Phrase("fix.map-entry", name=name, device=device), "check", None)]
    return [entry_fix(failure, script, name, device)]


def _at_use(failure: Failure, script: Script | None, guilty: Operand | None) -> list[Fix[Phrase]]:
    """The guilty operand to the device of what it meets, where the failing statement is the script's own.

    What the operator writes into stays, and what it meets comes to it.
    """
    if script is None or guilty is None or not script.holds(failure.event.at):
        return []
    if guilty.role and not _copy_written(failure, guilty):
        return []
    if isinstance(script.statement(failure.event.at), ast.Raise | ast.Assert):
        return []  # a check of the script's own, which moves nothing
    if _written(failure, guilty):
        return _brought(failure, script, guilty, partners(failure, guilty))
    if (together := parts_fix(failure, script, guilty)) is not None:
        return [together]
    if unites(failure, guilty):
        return _used(failure, script, guilty)
    kept = [each for each in partners(failure, guilty) if not _written(failure, each)] or [
        each for each in failure.event.operands if _written(failure, each)
    ]
    return _brought(failure, script, kept[0], partners(failure, kept[0])) if kept else []


def _copy_written(failure: Failure, weight: Operand) -> bool:
    """Whether the operator writes into a copy of a weight that somebody put where it is."""
    chosen = weight.decision is not None and weight.decision.kind == "placed"
    return chosen and _written(failure, weight) and kept_beside_parameters(failure) is weight


def _brought(failure: Failure, script: Script, kept: Operand, others: list[Operand]) -> list[Fix[Phrase]]:
    """One operand stays, such as what the operator writes into, and all others come to it."""
    at = failure.event.at
    target = device_text(script, spelled_at(script, at, kept))
    nodes = [spelled_at(script, at, each) for each in others]
    if target is None or not nodes or any(_written(failure, each) for each in others):
        return []
    if None in nodes or len({(node.lineno, node.col_offset) for node in nodes if node}) != len(nodes):
        return []
    source = script.source
    # The last one first: what stands before it stays where it is.
    for node in sorted(filter(None, nodes), key=lambda each: (each.lineno, each.col_offset), reverse=True):
        source = moved(Script(script.file, source), node, target)
    names = ", ".join(_shown(script, node, each) for node, each in zip(nodes, others, strict=True) if node)
    diff = script_diff(script, source)
    return [Fix(Phrase("fix.bring", operands=names, target=target), "safe", diff)] if diff else []


def _shown(script: Script, node: ast.expr, operand: Operand) -> str:
    """An operand as a title calls it."""
    text = grouped(script.text(node))
    return text if len(text) <= _LONGEST_SHOWN and "\n" not in text else operand.name


def _used(failure: Failure, script: Script, operand: Operand) -> list[Fix[Phrase]]:
    """An operand, which may be a weight, moved in the failing statement."""
    at = failure.event.at
    target = target_at(failure, script, operand, at.line)
    node = spelled_at(script, at, operand)
    if target is None or node is None or "meta" in (operand.device, *wanted(failure, operand)):
        return []
    if target.text == device_text(script, node):
        return []  # what it meets could not be told from it
    if on_accelerator(operand.device) and any(each.role == "parameter" for each in _of_host(failure)):
        return []  # the weights belong on the GPU; a result on the host would fail at the next statement
    if node.lineno < at.line and at.call and script.expression(at) is None:
        return []
    diff = script_diff(script, _moved_with_others(failure, script, operand, node, target.text))
    sure = target.derived and unites(failure, operand)
    if diff is None or not isinstance(getattr(node, "ctx", ast.Load()), ast.Load):
        return []
    shown = _shown(script, node, operand)
    return [Fix(Phrase("fix.at-use", operand=shown, target=target.text), "safe" if sure else "check", diff)]


def _moved_with_others(
    failure: Failure, script: Script, operand: Operand, node: ast.expr, target: str
) -> str:
    """The source with an operand moved; of a weight that a spread module owns itself, with its other weights
    that the line reads.
    """
    names = _own_weights(failure, script) if operand.role and failure.dispatched else frozenset()
    line = script.statement(failure.event.at)
    beside = [
        each
        for each in (ast.walk(line) if names and line is not None else ())
        if isinstance(each, ast.Attribute)
        and isinstance(each.ctx, ast.Load)
        and script.text(each) in names
        and each is not node
    ]
    source = script.source
    for each in sorted([node, *beside], key=lambda part: (part.lineno, part.col_offset), reverse=True):
        source = moved(Script(script.file, source), each, target)
    return source


def _own_weights(failure: Failure, script: Script) -> frozenset[str]:
    """The parameters of the running module itself, as its class writes them, where they are on one device."""
    here = failure.event.running[0] if failure.event.running else None
    if here is None or len(here.own) != 1:
        return frozenset()
    return frozenset(
        script.text(each.targets[0])
        for kind in script.classes_of(here.kind)
        for each in ast.walk(kind)
        if isinstance(each, ast.Assign) and isinstance(each.value, ast.Call)
        if called(each.value) == "Parameter"
    )


def _of_host(failure: Failure) -> list[Operand]:
    return [each for each in failure.event.operands if each.device == "cpu" and each.shape]


def _written(failure: Failure, operand: Operand) -> bool:
    """Whether the operator writes into the operand: a copy of it would take the result away."""
    return operand.name.startswith("out") or (
        operand.name.partition("[")[0] == "self" and failure.op.endswith("_")
    )


def _library(failure: Failure, script: Script | None, guilty: Operand | None) -> list[Fix[Phrase]]:
    """The fault is in library code: what to do there, or around it."""
    if script is not None and script.holds(failure.event.at):
        return []
    if (
        guilty is None
        or failure.by_user(failure.event.at)
        or (failure.placed_by_user(guilty) and not guilty.role)
    ):
        return []
    return _in_library(failure, guilty)


def _in_library(failure: Failure, guilty: Operand) -> list[Fix[Phrase]]:
    """What has to be changed there, in words."""
    device = next((each.device for each in failure.event.operands if each.device != guilty.device), None)
    if device is None or failure.by_user(failure.event.at):
        return []
    where = f"{short_file(failure.event.at.file)}:{failure.event.at.line}"
    return [Fix(Phrase("fix.library", operand=failure.written(guilty), device=device, where=where), "check")]


def _move(
    failure: Failure, script: Script | None, guilty: Operand, target: str | None, after: str | None
) -> str | None:
    """A diff that changes where the script puts the operand.

    `after` is a name in `target`, which must be known there already.
    """
    place = guilty.moved or guilty.made
    if script is None or target is None or not script.holds(place):
        return None
    if after is not None and (made := script.assignment(after)) is not None:
        here = script.scope(place.line)
        if made.lineno > place.line or not script.bound(after, here, place.line, place.line):
            return _move_at_call(failure, script, guilty, target)
    at = failure.event.at
    if place.line == at.line and place.file == at.file and (not place.call or place.call == at.call):
        return None  # made inside the very call that failed
    changed = relocated(script, place, target, tensors_beside(failure, guilty))
    return script_diff(script, changed) if changed else None


def _move_at_call(failure: Failure, script: Script, guilty: Operand, target: str) -> str | None:
    """The move in the call that takes the operand.

    Where the operand is made the model does not exist yet.
    """
    for place in calls_of(failure, script):
        if script.class_of(script.scope(place.line)) is not None:
            continue  # a method has its own names
        for call in script.find(place):
            given = given_by_name(call, guilty.argument) if guilty.argument else None
            for node in [*call.args, *(keyword.value for keyword in call.keywords)]:
                named = isinstance(node, ast.Name) and node.id in (
                    guilty.argument,
                    guilty.local,
                    assigned(script, guilty),
                )
                if named or node is given:
                    return script_diff(script, moved(script, node, target))
    return None


def _ranked(failure: Failure, script: Script | None, guilty: Operand | None) -> list[Fix[Phrase]]:
    """The rank's own GPU as its map, or none where ZeRO-3 shards."""
    if failure.event.kind is not EventKind.LAUNCH_CONFLICT:
        return []
    zero3 = "Zero-3" in failure.event.message
    found = map_argument(script) if script is not None else None
    diff = None
    if script is not None and found is not None:
        diff = script_diff(
            script,
            swapped(script, found, "None") if zero3 else with_import(swapped(script, found, RANK_MAP), "os"),
        )
    return [Fix(Phrase("fix.no-map"), "safe", diff) if zero3 else Fix(Phrase("fix.rank-map"), "check", diff)]


_REPAIRS: dict[str, tuple[Repair, ...]] = {
    "device-map-in-multi-process-launch": (_ranked,),
    "input-not-on-embedding-device": (_inputs,),
    "lm-head-or-tied-weight-split": (_inputs, _together),
    "extra-input-on-wrong-device": (_extra, _library),
    "loss-or-label-on-other-device": (_labels,),
    "generator-or-default-device": (generator_fixes,),
    "checkpoint-map-location": (_loaded,),
    "dispatched-model-moved": (_moved,),
    "module-left-on-other-device": (_whole_model,),
    "block-split-across-devices": (_together,),
    "device-map-incomplete-or-wrong": (_unmapped,),
    "tensor-created-on-wrong-device": (_extra, _library),
    "hard-coded-device": (_unwritten, _extra, _library),
    "rope-table-on-wrong-device": (_library,),
    "cache-or-beam-state-on-wrong-device": (_cache, _library),
    "generation-helper-on-wrong-device": (_extra, _library),
    "embedding-streams-on-different-devices": (_library, _together),
    "adapter-weights-on-other-device": (_adapted, _library),
    "rank-device-not-set": (_chosen,),
    "offload-hook-bypassed": (called_fixes,),
    "optimizer-state-on-other-device": (_ordered, _library),
    "optimizer-built-before-move": (_ordered, _library),
    "metric-state-device": (_metric, _library),
    "data-parallel-replica-device": (_plain_container, _library),
}
