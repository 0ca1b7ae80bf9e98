"""Repairs of the user's own script, as diffs."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from pathlib import Path

from samedevice.diagnosis._scene import Scene
from samedevice.diagnosis._weigh import Verdict
from samedevice.diagnosis.fixes._edit import FACTORIES, RANK_MAP, Script, called, relocated, with_import, with_keyword
from samedevice.diagnosis.paste import short_file
from samedevice.events import Event, EventKind, Operand, Place
from samedevice.findings import Fix, Safety
from samedevice.messages import Language, say

Repair = Callable[[Scene, Script | None, Operand | None, Language], list[Fix]]


_CACHE = re.compile(r"\A(?:past_key_values?|layer_past|past|cache|cache_params|kv_cache|\w*Cache\w*)\Z")
"""What holds a cache that `sd.guard_cache` looks after."""


def script_fixes(scene: Scene, verdict: Verdict, language: Language) -> tuple[Fix, ...]:
    """What can be changed in the script, or in the map, for this cause."""
    user = scene.event.user_at
    script = Script.read(user.file) if user is not None else None
    guilty = next((each for each in scene.event.operands if each.name == verdict.guilty), None)
    fixes = []
    if scene.event.kind is EventKind.NONDETERMINISTIC_DEVICE:
        fixes.append(Fix(say("fix.sorted-devices", language), "safe"))
    for repair in (_extra,) if scene.group is not None else _REPAIRS.get(verdict.cause, ()):
        fixes += repair(scene, script, guilty, language)
    received = scene.group is not None  # a copy made in the call would receive it, and be lost
    if not received and not any(fix.diff for fix in fixes) and verdict.cause not in ("dispatched-model-moved", "undetermined"):
        fixes = [*_at_use(scene, script, guilty, language), *fixes]
    unique = {(fix.title, fix.diff): fix for fix in fixes}
    return tuple(unique.values())[:4]


def fix_at_use(event: Event, operand: str, language: Language = "en") -> Fix | None:
    """The operand moved where the script's own failing statement uses it; None when the statement is not the script's."""
    script = Script.read(event.user_at.file) if event.user_at is not None else None
    stale = next((each for each in event.operands if each.name == operand), None)
    return next(iter(_at_use(Scene(event), script, stale, language)), None)


def _own(device: str, scene: Scene) -> bool:
    """Whether a device is the only GPU of a rank: on the other ranks it is another one."""
    if scene.group is not None:
        return scene.launched and device.startswith("cuda")
    gpus = {each.device for each in scene.event.operands if each.device.startswith("cuda")}
    return scene.launched and device.startswith("cuda") and len(gpus) == 1


def _named(device: str, scene: Scene) -> str:
    """A device as a title calls it."""
    return "cuda:LOCAL_RANK" if _own(device, scene) else device


def _code_of(device: str, scene: Scene, script: Script | None) -> str:
    """A device as the script writes it; in a launch the GPU of the rank, whichever it is."""
    if not _own(device, scene):
        return f'"{device}"'
    rank = script.rank_name if script is not None else None
    if rank is not None:
        return f'f"cuda:{{{rank}}}"'
    return """f"cuda:{os.environ['LOCAL_RANK']}\"""" if script is not None and script.imports("os") else '"cuda"'


def _fix(key: str, safety: Safety, language: Language, diff: str | None = None, **values: str) -> Fix:
    return Fix(say(f"fix.{key}", language, **values), safety, diff)


def _inputs(scene: Scene, script: Script | None, guilty: Operand | None, language: Language) -> list[Fix]:
    """Ids to the device of the embedding's weight."""
    weight = next((each for each in scene.weights if each.name == "weight"), None)
    if weight is None or guilty is None:
        return []
    transformers = "/transformers/" in scene.event.at.file and not _of_script(scene, script)
    key = "inputs-to-embedding" if transformers else "inputs-to-weight"
    model = _model_name(scene, script)
    target = None
    if model is not None:
        named = f"{model}.{weight.parameter}.device" if weight.parameter else None
        target = f"{model}.get_input_embeddings().weight.device" if transformers else named
    ids = next((each for each in scene.event.operands if each.name == "indices"), guilty)
    diff = _move(scene, script, ids, target, model) or _move_batch(scene, script, target, model)
    fixes = [_fix(key, "safe", language, diff, weight=weight.parameter or "weight")]
    if weight.tied and transformers:
        fixes += [_one_device(script, language), _fix("one-visible", "check", language)]
    return fixes


def _of_script(scene: Scene, script: Script | None) -> bool:
    """Whether the outermost module is of a class of the script, which need not have the methods of a library's models."""
    kind = scene.event.running[-1].kind if scene.event.running else ""
    classes = (node for node in ast.walk(script.tree) if isinstance(node, ast.ClassDef)) if script is not None else ()
    return any(node.name == kind for node in classes)


def _move_batch(scene: Scene, script: Script | None, target: str | None, model: str | None) -> str | None:
    """A diff of the line that moves the batch which the model is called with, when a library's own code did the move."""
    if script is None or target is None or model is None or (made := script.assignment(model)) is None:
        return None
    for place in _calls_of(scene, script):
        for call in script.find(place):
            for node in [*call.args, *(keyword.value for keyword in call.keywords)]:
                name = node.value if isinstance(node, ast.Attribute) else node
                given = script.assignment(name.id) if isinstance(name, ast.Name) else None
                if given is None or given.lineno < made.lineno or not isinstance(given.value, ast.Call):
                    continue
                if called(given.value) in ("to", "cuda") and isinstance(given.value.func, ast.Attribute):
                    return script.diff(script.swapped(given.value, f"{script.text(given.value.func.value)}.to({target})"))
    return None


def _one_device(script: Script | None, language: Language) -> Fix:
    """The whole model on one device."""
    diff = None
    if script is not None and (found := _map_argument(script)) is not None:
        diff = script.diff(script.swapped(found, '{"": "cuda:0"}'))
    return _fix("one-device", "check", language, diff)


def _extra(scene: Scene, script: Script | None, guilty: Operand | None, language: Language) -> list[Fix]:
    """An input to the device of what it meets."""
    if guilty is None:
        return []
    other = scene.group or next((each for each in scene.event.operands if each.device != guilty.device), None)
    if other is None or not scene.placed_by_user(guilty):
        return []
    if scene.entry == guilty.device or "self.device" in scene.code:
        return _in_library(scene, guilty, language)  # whatever the script does, it would be brought back
    if guilty.moved is None and script is not None and (buffer := _as_buffer(script, guilty.made)) is not None:
        return [_fix("buffer", "check", language, buffer, operand=scene.written(guilty))]
    diff = _move(scene, script, guilty, _code_of(other.device, scene, script), None)
    key = "input-to" if guilty.moved is not None or guilty.argument else "made-on"
    return [_fix(key, "safe", language, diff, operand=guilty.argument or scene.written(guilty), device=_named(other.device, scene))]


def _as_buffer(script: Script, place: Place | None) -> str | None:
    """A diff that makes a buffer of a tensor that a module's `__init__` keeps as a plain attribute, which `.to()` leaves behind.

    None for a module that places its parts itself: there is no `.to()` that would take the buffer along.
    """
    if not script.holds(place):
        return None
    statement = script.statement(place)
    if not isinstance(statement, ast.Assign) or len(statement.targets) != 1 or not isinstance(statement.value, ast.Call):
        return None
    target = statement.targets[0]
    if not (isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name)) or called(statement.value) not in FACTORIES:
        return None
    for home in ast.walk(script.tree):
        if not isinstance(home, ast.ClassDef) or not any(script.text(base).endswith("Module") for base in home.bases):
            continue
        for method in home.body:
            if isinstance(method, ast.FunctionDef) and method.name == "__init__" and statement in ast.walk(method):
                if re.search(r"\.(?:to|cuda)\(|device", script.text(method)):
                    return None
                kept = f'{target.value.id}.register_buffer("{target.attr}", {script.text(statement.value)}, persistent=False)'
                return script.diff(script.swapped(statement, kept))
    return None


def _cache(scene: Scene, script: Script | None, guilty: Operand | None, language: Language) -> list[Fix]:
    """The cache itself to the layer that uses it; an index that serves caches on several GPUs stays on the host, or is library code."""
    if guilty is None or guilty.holder is not None:
        return [*_extra(scene, script, guilty, language), *_guarded(scene, guilty, language)]
    if scene.op == "index" and scene.placed_by_user(guilty):
        diff = _move(scene, script, guilty, '"cpu"', None)
        return [_fix("made-on", "safe", language, diff, operand=guilty.argument or scene.written(guilty), device="cpu")]
    return _in_library(scene, guilty, language)


def _guarded(scene: Scene, guilty: Operand | None, language: Language) -> list[Fix]:
    """A block that is called by itself, as a server does, and got the cache as an argument: a guard on the block."""
    outermost = scene.event.running[-1].kind if scene.event.running else ""
    if guilty is None or not re.search(r"Block|Layer|Attention", outermost) or not _CACHE.search(guilty.holder or ""):
        return []
    return [_fix("guard-cache", "safe", language, block=outermost)]


def _labels(scene: Scene, script: Script | None, guilty: Operand | None, language: Language) -> list[Fix]:
    """Labels to the logits."""
    if guilty is None:
        return []
    logits = next((each for each in scene.event.operands if each.device != guilty.device), None)
    if logits is None:
        return []
    name = guilty.local or guilty.argument or guilty.name
    fixes = _at_use(scene, script, guilty, language)
    if not fixes:
        if scene.entry == guilty.device and not scene.by_user(scene.event.at):
            return _in_library(scene, guilty, language)  # the outermost hook would bring it back
        placed = scene.placed_by_user(guilty)
        diff = _move(scene, script, guilty, _code_of(logits.device, scene, script), None) if placed else None
        fixes = [_fix("labels", "safe", language, diff, operand=name, device=_named(logits.device, scene))]
    return fixes


def _generator(scene: Scene, script: Script | None, guilty: Operand | None, language: Language) -> list[Fix]:
    """The generator on the tensor's device."""
    devices = [each.device for each in scene.event.operands if each.name != "generator"]
    if not devices:
        return []
    diff = None
    if script is not None:
        made = [node for node in ast.walk(script.tree) if isinstance(node, ast.Call) and called(node) == "Generator"]
        if len(made) == 1:
            old = made[0]
            given = next((keyword.value for keyword in old.keywords if keyword.arg == "device"), old.args[0] if old.args else None)
            text = _code_of(devices[0], scene, script)
            changed = script.swapped(given, text) if given else script.swapped(old, with_keyword(script, old, "device", text))
            diff = script.diff(changed)
    return [_fix("generator", "check", language, diff, device=_named(devices[0], scene))]


def _loaded(scene: Scene, script: Script | None, guilty: Operand | None, language: Language) -> list[Fix]:
    """`map_location` for `torch.load`."""
    other = next((each.device for each in scene.event.operands if guilty is None or each.device != guilty.device), "cpu")
    diff = None
    place = (guilty.moved or guilty.made) if guilty else None
    if script is not None and script.holds(place):
        for call in script.find(place):
            if called(call) == "load" and not any(keyword.arg == "map_location" for keyword in call.keywords):
                diff = script.diff(script.swapped(call, with_keyword(script, call, "map_location", _code_of(other, scene, script))))
                break
    return [_fix("map-location", "safe", language, diff, device=_named(other, scene))]


def _moved(scene: Scene, script: Script | None, guilty: Operand | None, language: Language) -> list[Fix]:
    """No move after the dispatch."""
    place = guilty.moved if guilty else None
    diff = None
    if script is not None and not script.holds(place):
        place = _move_of(script, _model_name(scene, script)) or place
    if script is not None and script.holds(place):
        statement = script.statement(place)
        if isinstance(statement, ast.Expr):
            diff = script.diff(script.without(statement))
        elif isinstance(statement, ast.Assign) and isinstance(statement.value, ast.Call) and called(statement.value) in ("to", "cuda"):
            function = statement.value.func
            if isinstance(function, ast.Attribute):
                same = [script.text(target) for target in statement.targets] == [script.text(function.value)]
                kept = script.without(statement) if same else script.swapped(statement.value, script.text(function.value))
                diff = script.diff(kept)
    if place is None:
        return []
    return [_fix("no-move", "safe" if diff else "check", language, diff, where=f"{_file(script, place)}:{place.line}")]


def _file(script: Script | None, place: Place) -> str:
    """The script by its own name, another file as it is installed."""
    return Path(place.file).name if script is not None and place.file == script.file else short_file(place.file)


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


def _whole_model(scene: Scene, script: Script | None, guilty: Operand | None, language: Language) -> list[Fix]:
    """The model to where its inputs are."""
    device = next((each.device for each in scene.plain if each.device.startswith("cuda")), None)
    if device is None:
        return []
    model, diff = _model_name(scene, script), None
    if script is not None and model is not None and (made := script.assignment(model)) is not None:
        diff = script.diff(script.swapped(made.value, f"{script.text(made.value)}.to({_code_of(device, scene, script)})"))
    return [_fix("model-to", "check", language, diff, device=_named(device, scene))]


def _together(scene: Scene, script: Script | None, guilty: Operand | None, language: Language) -> list[Fix]:
    """A map that keeps the cut block whole."""
    cut = next((each for each in scene.event.running if len(each.below) > 1), None)
    if cut is None or not scene.event.device_map or len(scene.event.running) < 1:
        return []
    whole = cut.name == cut.kind
    prefix = "" if whole else cut.name
    inside = [name for name in scene.event.device_map if name == prefix or name.startswith(f"{prefix}.") or not prefix]
    if not inside:
        return []
    parents = _direct_parts(scene, prefix)
    kept = next((each.device for each in scene.event.operands if guilty is not None and each.device != guilty.device), None)
    met = {each.device for each in scene.event.operands}
    # Inputs arrive where the outermost hook sends them, and so does what is made from them.
    device = scene.entry if scene.entry in met and scene.entry is not None else kept or scene.event.device_map[inside[0]]
    repaired = {name: (device if name in parents else where) for name, where in scene.event.device_map.items()}
    left = {where for name, where in scene.event.device_map.items() if repaired[name] != where}
    for name in _HEADS & repaired.keys():
        if repaired[name] in left:  # a head that is tied to the embedding, as most are, stays with it
            repaired[name] = device
    if len(set(repaired.values())) == len(set(scene.event.device_map.values())) and repaired == scene.event.device_map:
        return []
    text = "{" + ", ".join(f'"{name}": "{where}"' for name, where in repaired.items()) + "}"
    diff = None
    if script is not None and (found := _map_literal(script, scene)) is not None:
        diff = script.diff(script.swapped(found, text))
    return [_fix("device-map", "check", language, diff, map=text, module=f"{cut.name} ({cut.kind})")]


_HEADS = {"lm_head", "embed_out", "output", "model.lm_head", "language_model.lm_head"}


def _direct_parts(scene: Scene, prefix: str) -> list[str]:
    """Keys of the map that hold parts of the cut module: all of a small one, what is beside the operands of a large one."""
    keys = [name for name in scene.event.device_map if not prefix or name == prefix or name.startswith(f"{prefix}.")]
    touched = {device for operand in scene.event.operands for device in (operand.device,)}
    return [name for name in keys if scene.event.device_map[name] in touched]


def _unmapped(scene: Scene, script: Script | None, guilty: Operand | None, language: Language) -> list[Fix]:
    """The missing name in the map."""
    if guilty is None or not guilty.parameter:
        return []
    name = guilty.parameter.rpartition(".")[0] or guilty.parameter
    device = next((each.device for each in scene.event.operands if each.device != guilty.device), "cuda:0")
    diff = None
    if script is not None and isinstance(found := _map_literal(script, scene), ast.Dict):
        text = script.text(found)
        diff = script.diff(script.swapped(found, f'{text[:-1].rstrip().removesuffix(",")}, "{name}": "{device}"}}'))
    return [_fix("map-key", "safe", language, diff, name=name, device=device)]


def _at_use(scene: Scene, script: Script | None, guilty: Operand | None, language: Language) -> list[Fix]:
    """When the failing statement is the script's own: the guilty operand to the device of the one that it meets."""
    at = scene.event.at
    if script is None or guilty is None or not script.holds(at) or guilty.local is None or not guilty.local.isidentifier():
        return []
    names = [each.local for each in scene.event.operands if each.device != guilty.device and each.local and each.local.isidentifier()]
    weights = [each for each in scene.weights if each.device != guilty.device and each.device.startswith("cuda")]
    statement = script.statement(at)
    if statement is None or guilty.role:
        return []
    if names:
        target = f"{names[0]}.device"
    elif weights or any(each.device.startswith("cuda") for each in scene.event.operands if each.device != guilty.device):
        device = next(each.device for each in scene.event.operands if each.device != guilty.device)
        target = _code_of(device, scene, script)
    else:
        return []
    for node in ast.walk(statement):
        if isinstance(node, ast.Name) and node.id == guilty.local and isinstance(node.ctx, ast.Load):
            if node.lineno < at.line and at.call:
                continue
            diff = script.diff(script.swapped(node, f"{guilty.local}.to({target})"))
            return [_fix("at-use", "safe", language, diff, operand=guilty.local, target=target)] if diff else []
    return []


def _library(scene: Scene, script: Script | None, guilty: Operand | None, language: Language) -> list[Fix]:
    """The fault is in library code: what to do there, or around it."""
    if script is not None and script.holds(scene.event.at):
        return []
    if guilty is None or scene.by_user(scene.event.at) or (scene.placed_by_user(guilty) and not guilty.role):
        return []
    return _in_library(scene, guilty, language)


def _in_library(scene: Scene, guilty: Operand, language: Language) -> list[Fix]:
    """What has to be changed there, in words."""
    device = next((each.device for each in scene.event.operands if each.device != guilty.device), None)
    if device is None:
        return []
    where = f"{short_file(scene.event.at.file)}:{scene.event.at.line}"
    return [_fix("library", "check", language, operand=scene.written(guilty), device=device, where=where)]


def _move(scene: Scene, script: Script | None, guilty: Operand, target: str | None, after: str | None) -> str | None:
    """A diff that changes where the script puts the operand, if `after`, a name in `target`, is known there already."""
    place = guilty.moved or guilty.made
    if script is None or target is None or not script.holds(place):
        return None
    if after is not None and (made := script.assignment(after)) is not None and made.lineno > place.line:
        return _move_at_call(scene, script, guilty, target)
    changed = relocated(script, place, target)
    return script.diff(changed) if changed else None


def _move_at_call(scene: Scene, script: Script, guilty: Operand, target: str) -> str | None:
    """The move in the call that takes the operand, since the model does not exist yet where the operand is made."""
    for place in _calls_of(scene, script):
        for call in script.find(place):
            for node in [*call.args, *(keyword.value for keyword in call.keywords)]:
                if isinstance(node, ast.Name) and node.id in (guilty.argument, guilty.local, _assigned(script, guilty)):
                    return script.diff(script.swapped(node, f"{node.id}.to({target})"))
    return None


def _assigned(script: Script, operand: Operand) -> str | None:
    """The name that the script gives to what it makes in the line of the operand."""
    place = operand.moved or operand.made
    statement = script.statement(place) if place is not None else None
    if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
        return statement.targets[0].id
    return None


def _model_name(scene: Scene, script: Script | None) -> str | None:
    """The variable that the script's failing call is made on: `model` in `model.generate(...)` or `model(...)`."""
    if script is None:
        return None
    for place in _calls_of(scene, script):
        for call in sorted(script.find(place), key=lambda each: -len(script.text(each))):
            function = call.func
            if isinstance(function, ast.Attribute) and function.attr in ("generate", "forward", "chat", "__call__", "encode"):
                function = function.value
            if isinstance(function, ast.Name) and re.fullmatch(r"[a-z_]\w*", function.id) and script.assignment(function.id) is not None:
                return function.id
    return None


def _calls_of(scene: Scene, script: Script) -> list[Place]:
    """Lines of the script on the stack, outermost first."""
    return [place for place in (*scene.event.stack, scene.event.user_at) if script.holds(place)]


def _map_argument(script: Script) -> ast.expr | None:
    """The value of the script's only `device_map=`, through a name where one is given."""
    found = [
        keyword.value
        for node in ast.walk(script.tree)
        if isinstance(node, ast.Call)
        for keyword in node.keywords
        if keyword.arg == "device_map"
    ]
    if len(found) != 1:
        return None
    value = found[0]
    if isinstance(value, ast.Name) and (made := script.assignment(value.id)) is not None:
        return made.value
    return value


def _map_literal(script: Script, scene: Scene) -> ast.expr | None:
    """The dictionary in the script that became the map, or else the value of `device_map=`."""
    keys = set(scene.event.device_map)
    for node in ast.walk(script.tree):
        if isinstance(node, ast.Dict) and node.keys and {key.value for key in node.keys if isinstance(key, ast.Constant)} == keys:
            return node
    return _map_argument(script)


def _ranked(scene: Scene, script: Script | None, guilty: Operand | None, language: Language) -> list[Fix]:
    """The rank's own GPU as its map, or none where ZeRO-3 shards."""
    if scene.event.kind is not EventKind.LAUNCH_CONFLICT:
        return []
    zero3 = "Zero-3" in scene.event.message
    found = _map_argument(script) if script is not None else None
    diff = None
    if script is not None and found is not None:
        diff = script.diff(script.swapped(found, "None") if zero3 else with_import(script.swapped(found, RANK_MAP), "os"))
    return [_fix("no-map", "safe", language, diff) if zero3 else _fix("rank-map", "check", language, diff)]


_REPAIRS: dict[str, tuple[Repair, ...]] = {
    "device-map-in-multi-process-launch": (_ranked,),
    "input-not-on-embedding-device": (_inputs,),
    "lm-head-or-tied-weight-split": (_inputs, _together),
    "extra-input-on-wrong-device": (_extra, _library),
    "loss-or-label-on-other-device": (_labels,),
    "generator-or-default-device": (_generator,),
    "checkpoint-map-location": (_loaded,),
    "dispatched-model-moved": (_moved,),
    "module-left-on-other-device": (_whole_model,),
    "block-split-across-devices": (_together,),
    "device-map-incomplete-or-wrong": (_unmapped,),
    "tensor-created-on-wrong-device": (_extra, _library),
    "hard-coded-device": (_library,),
    "rope-table-on-wrong-device": (_library,),
    "cache-or-beam-state-on-wrong-device": (_cache, _library),
    "generation-helper-on-wrong-device": (_extra, _library),
    "embedding-streams-on-different-devices": (_library, _together),
    "adapter-weights-on-other-device": (_library,),
    "optimizer-state-on-other-device": (_library,),
    "metric-state-device": (_library,),
}
