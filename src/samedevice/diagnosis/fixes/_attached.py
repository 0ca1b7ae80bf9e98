"""Modules that joined a model after it was placed: their weights are where they were made."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from samedevice.diagnosis._failure import Failure
from samedevice.diagnosis.fixes._at_hand import device_at, text_of
from samedevice.diagnosis.fixes._edit import all_swapped, moved, script_diff, with_line_after
from samedevice.diagnosis.fixes._source import Script, called
from samedevice.diagnosis.fixes._target import partners
from samedevice.events import Operand
from samedevice.findings import Fix
from samedevice.messages import Phrase


def attached_fix(failure: Failure, script: Script | None, weight: Operand | None) -> Fix[Phrase] | None:
    """The new module moved to the model that it joins, in the only statement that makes it so.

    `model.head = Head(8)` puts it beside `model`; where it wraps what stood there, as in
    `model[2] = Adapter(model[2])` or `setattr(model, name, Adapter(child))`, it goes where that is.
    """
    if script is None or weight is None or not (weight.role or of_weight(weight)):
        return None
    for module in failure.event.running:
        joined = [
            each for node in ast.walk(script.tree) for each in _joins(node) if called(each[1]) == module.kind
        ]
        if len(joined) != 1:
            continue
        owner, value, place = joined[0]
        wrapped = _wrapped(script, value, place)
        if wrapped is None and _is_new_container(script, owner):
            return None  # it has no weight yet
        device = f"next({wrapped or script.text(owner)}.parameters()).device"
        diff = script_diff(script, moved(script, value, device))
        if diff is not None:
            return Fix(Phrase("fix.attached", module=module.kind, device=device), "safe", diff)
    return None


def _is_new_container(script: Script, owner: ast.Name) -> bool:
    """Whether the function that fills a container made it empty: `adapters = nn.ModuleDict()`."""
    return any(
        isinstance(node, ast.Assign)
        and [script.text(each) for each in node.targets] == [owner.id]
        and isinstance(node.value, ast.Call)
        and called(node.value) in _CONTAINERS
        and not node.value.args
        for node in ast.walk(script.scope(owner.lineno))
    )


_CONTAINERS = ("ModuleDict", "ModuleList", "Sequential")


def grown_fix(failure: Failure, script: Script | None, weight: Operand | None) -> Fix[Phrase] | None:
    """A layer that a method gives to its own module, once that has been placed, made where the module is."""
    newest = None if weight is None else weight.decision
    if script is None or weight is None or newest is None or newest.kind != "created" or newest.name is None:
        return None
    met = {each.device for each in partners(failure, weight)}
    if not script.holds(newest.at) or len(met) != 1:
        return None
    home, statement = script.scope(newest.at.line), script.statement(newest.at)
    owner = script.class_of(home)
    if owner is None or not any(each.kind == owner.name for each in failure.event.running):
        return None
    match statement:
        case ast.Assign(
            targets=[ast.Attribute(value=ast.Name(id="self")) as target], value=ast.Call() as value
        ) if newest.at.function != "__init__":
            device = _beside(failure, script, met.pop(), newest.at.line, script.text(target))
            diff = None if device is None else script_diff(script, moved(script, value, device))
            title = Phrase("fix.made-on", operand=script.text(target), device=device or "")
            return Fix(title, "safe", diff) if diff else None
    return None


def _beside(failure: Failure, script: Script, device: str, line: int, made: str) -> str | None:
    """What names a device in a method: what its function holds, or another part of its object."""
    found = device_at(failure, script, device, line)
    if found is not None and made not in found:
        return found
    home = script.class_of(script.scope(line))
    for each in failure.event.at_hand:
        part = each.name.startswith("self.") and each.name != made and script.holds(failure.event.at)
        if part and (each.kind, each.device) == ("module", device):
            if home is not None and home is script.class_of(script.scope(each.line)):
                return text_of(each)
    return None


def _joins(node: ast.AST) -> Iterator[tuple[ast.Name, ast.Call, ast.expr | None]]:
    """What a statement gives to a model that is there already: the model, the call that makes it, and the
    place that it takes.
    """
    match node:
        case ast.Assign(targets=[(ast.Attribute() | ast.Subscript()) as target], value=ast.Call() as value):
            root = _root(target)
            if isinstance(root, ast.Name) and root.id != "self":
                yield root, value, target
        case ast.Call(func=ast.Name(id="setattr"), args=[ast.Name() as root, _, ast.Call() as value]):
            if root.id != "self":
                yield root, value, None


def _wrapped(script: Script, value: ast.Call, place: ast.expr | None) -> str | None:
    """The module among the arguments of a new one that it is to stand for: what was in its place before, or
    what its class calls.
    """
    if place is not None and any(script.text(each) == script.text(place) for each in value.args):
        return script.text(place)
    for home in ast.walk(script.tree):
        if not isinstance(home, ast.ClassDef) or home.name != called(value):
            continue
        made = next(
            (each for each in home.body if isinstance(each, ast.FunctionDef) and each.name == "__init__"),
            None,
        )
        called_parts = {script.text(node.func) for node in ast.walk(home) if isinstance(node, ast.Call)}
        names = [each.arg for each in made.args.args[1:]] if made is not None else []
        for node in ast.walk(made) if made is not None else ():
            if not isinstance(node, ast.Assign) or script.text(node.targets[0]) not in called_parts:
                continue
            stored = _root_of_call(node.value)
            if isinstance(stored, ast.Name) and stored.id in names:
                at = names.index(stored.id)
                given = value.args[at] if at < len(value.args) else None
                by_name = [each.value for each in value.keywords if each.arg == stored.id]
                for each in (given, *by_name):
                    if isinstance(each, ast.Name):
                        return each.id
    return None


def _root_of_call(node: ast.expr) -> ast.expr:
    """`base` of `base.requires_grad_(False)`."""
    while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        node = node.func.value
    return node


def of_weight(operand: Operand) -> bool:
    """Whether an operand was computed from a weight that lies where it does."""
    newest = operand.decision
    return newest is not None and newest.inherited and newest.name is not None


def _root(node: ast.expr) -> ast.expr:
    while isinstance(node, (ast.Attribute, ast.Subscript)):
        node = node.value
    return node


def container_fix(failure: Failure, script: Script | None, *, beside: bool = True) -> Fix[Phrase] | None:
    """`nn.ModuleList` or `nn.ModuleDict` around what a module keeps its parts in, where `.to()` does not
    reach them; only the words, where the source does not tell which of its attributes that is.

    With `beside`, a list of modules stands beside a dictionary whose keys `nn.ModuleDict` does not take.
    """
    running = failure.event.running
    inside = [at for at, each in enumerate(running) if each.registered]
    if not inside or not inside[0]:
        return None
    parent, part = running[inside[0]], running[inside[0] - 1]
    words = Fix(Phrase("fix.module-list", module=parent.kind, container="ModuleList"), "check", None)
    if script is None:
        return words
    changes = (
        _contained(script, home, kept, parent.kind, beside)
        for home in script.classes_of(parent.kind)
        if (kept := _containers(script, home, part.kind))
    )
    return next((each for each in changes if each is not None), words)


def _containers(script: Script, home: ast.ClassDef, kind: str) -> list[ast.expr]:
    """The plain lists and dictionaries in which a class keeps modules: the one with those of a kind, or else
    all whose elements it calls.
    """
    assigned = [
        node
        for node in ast.walk(home)
        if isinstance(node, ast.Assign)
        and isinstance(node.targets[0], ast.Attribute)
        and (_is_display(node.value) or _is_made_list(node.value))
    ]
    own = [
        node.value
        for node in assigned
        if _makes(script, node.value, kind) or _is_filled(script, home, node, kind)
    ]
    return own or [
        node.value
        for node in assigned
        if (_made_by_calls(node.value) or _is_filled(script, home, node)) and _is_run(home, node.targets[0])
    ]


def _contained(
    script: Script, home: ast.ClassDef, kept: list[ast.expr], parent: str, beside: bool
) -> Fix[Phrase] | None:
    """The change that makes modules of what a class keeps them in."""
    name = "nn" if re.search(r"\bnn\.", script.text(home)) else "torch.nn"
    texts: list[tuple[ast.expr, str]] = []
    kinds = []
    for display in kept:
        keyed = isinstance(display, (ast.Dict, ast.DictComp))
        if isinstance(display, (ast.Dict, ast.DictComp)) and not _of_texts(display) and _has_items(display):
            changed = (
                _registered(script, home, display, f"{name}.ModuleList")
                if len(kept) == 1 and beside
                else None
            )
            return None if changed is None else _of_containers(script, changed, ["ModuleList"], parent)
        kinds.append("ModuleDict" if keyed else "ModuleList")
        if _is_made_list(display) and isinstance(display, ast.Call):
            texts.append((display.func, f"{name}.{kinds[-1]}"))
        else:
            held = script.text(display) if _has_items(display) else ""
            texts.append((display, f"{name}.{kinds[-1]}({held})"))
    return _of_containers(script, all_swapped(script, texts), kinds, parent)


def _of_containers(script: Script, changed: str, kinds: list[str], parent: str) -> Fix[Phrase]:
    containers = ", nn.".join(dict.fromkeys(kinds))
    return Fix(
        Phrase("fix.module-list", module=parent, container=containers), "safe", script_diff(script, changed)
    )


def _is_display(node: ast.expr) -> bool:
    return isinstance(node, (ast.List, ast.ListComp, ast.Dict, ast.DictComp))


def _is_made_list(node: ast.expr) -> bool:
    """`tuple(Linear(8, 2) for _ in range(3))`, and the same with `list`."""
    match node:
        case ast.Call(func=ast.Name(id="tuple" | "list"), args=[ast.GeneratorExp() | ast.ListComp()]):
            return True
    return False


def _makes(script: Script, node: ast.AST, kind: str) -> bool:
    return re.search(rf"\b{re.escape(kind)}\(", script.text(node)) is not None


def _made_by_calls(display: ast.expr) -> bool:
    """Whether a list or dictionary is filled by calls of what makes its parts: `[make() for _ in ids]`."""
    match display:
        case ast.ListComp(elt=element) | ast.DictComp(value=element):
            return _is_made(element)
        case ast.Call(args=[ast.GeneratorExp(elt=element) | ast.ListComp(elt=element)]):
            return _is_made(element)
        case ast.List(elts=[_, *_] as elements) | ast.Dict(values=[_, *_] as elements):
            return all(map(_is_made, elements))
    return False


def _is_made(element: ast.expr) -> bool:
    """Whether an expression calls a function of the script, or a method of the object itself."""
    match element:
        case ast.Call(func=ast.Name() | ast.Attribute(value=ast.Name(id="self"))):
            return True
    return False


def _is_run(home: ast.ClassDef, attribute: ast.expr) -> bool:
    """Whether a class calls what it keeps in a list, one after the other or by its number."""
    kept = ast.unparse(attribute)
    for node in ast.walk(home):
        match node:
            case ast.Call(func=ast.Subscript(value=of)) if ast.unparse(of) == kept:
                return True
            case ast.For(target=target, iter=values):
                name = _taken_from(target, values, kept)
                calls = (each for part in node.body for each in ast.walk(part) if isinstance(each, ast.Call))
                if name and any(isinstance(each.func, ast.Name) and each.func.id == name for each in calls):
                    return True
    return False


def _taken_from(target: ast.expr, values: ast.expr, kept: str) -> str | None:
    """The name that a loop gives to each element of a list, also beside those of other lists."""
    pairs = [(target, values)]
    match target, values:
        case ast.Tuple(elts=names), ast.Call(func=ast.Name(id="zip"), args=lists):
            pairs = list(zip(names, lists, strict=False))
        case ast.Tuple(elts=[_, name]), ast.Call(func=ast.Name(id="enumerate"), args=[of, *_]):
            pairs = [(name, of)]
        case ast.Tuple(elts=[_, name]), ast.Call(func=ast.Attribute(value=of, attr="items")):
            pairs = [(name, of)]
        case _, ast.Call(func=ast.Attribute(value=of, attr="values")):
            pairs = [(target, of)]
    return next(
        (name.id for name, of in pairs if isinstance(name, ast.Name) and ast.unparse(of) == kept), None
    )


def _has_items(display: ast.expr) -> bool:
    return not isinstance(display, (ast.List, ast.Dict)) or bool(
        display.elts if isinstance(display, ast.List) else display.keys
    )


def _is_filled(script: Script, home: ast.ClassDef, made: ast.Assign, kind: str | None = None) -> bool:
    """Whether an empty list or dictionary of texts gets modules of a kind, one after the other, or what calls
    make.
    """
    name, display = script.text(made.targets[0]), made.value
    if _has_items(display):
        return False
    for node in ast.walk(home):
        match node:
            case ast.Call(func=ast.Attribute(value=of, attr="append"), args=[given]):
                fits = _is_made(given) if kind is None else _makes(script, given, kind)
                if script.text(of) == name and isinstance(display, ast.List) and fits:
                    return True
            case ast.Assign(targets=[ast.Subscript(value=of)], value=given):
                fits = _is_made(given) if kind is None else _makes(script, given, kind)
                if script.text(of) == name and isinstance(display, ast.Dict) and fits:
                    return True
    return False


TAKEN = frozenset(
    """
    T_destination add_module apply bfloat16 buffers call_super_init children clear compile cpu cuda
    double dump_patches eval extra_repr float forward get_buffer get_extra_state get_parameter
    get_submodule half ipu items keys load_state_dict modules mtia named_buffers named_children
    named_modules named_parameters parameters pop register_backward_hook register_buffer
    register_forward_hook register_forward_pre_hook register_full_backward_hook
    register_full_backward_pre_hook register_load_state_dict_post_hook register_load_state_dict_pre_hook
    register_module register_parameter register_state_dict_post_hook register_state_dict_pre_hook
    requires_grad_ set_extra_state set_submodule share_memory state_dict to to_empty train training type
    update values xpu zero_grad
    """.split()
)
"""Names that `nn.ModuleDict` has itself, so that no key may be one (torch 2.13)."""


def _of_texts(display: ast.Dict | ast.DictComp) -> bool:
    """Whether all keys are texts that `nn.ModuleDict` takes: none is empty, has a dot or is a name of it."""
    keys = [display.key] if isinstance(display, ast.DictComp) else display.keys
    return all(
        isinstance(key, ast.JoinedStr)
        or (isinstance(key, ast.Constant) and isinstance(key.value, str) and _is_free(key.value))
        or (isinstance(key, ast.Call) and called(key) == "str")
        for key in keys
    )


def _is_free(key: str) -> bool:
    return key != "" and "." not in key and key not in TAKEN


def _registered(script: Script, home: ast.ClassDef, display: ast.expr, container: str) -> str | None:
    """The source in which what a dictionary holds is in a list of modules, too."""
    for node in ast.walk(home):
        if isinstance(node, ast.Assign) and node.value is display:
            place = script.text(node.targets[0])
            return with_line_after(script, node, f"{place}_modules = {container}({place}.values())")
    return None
