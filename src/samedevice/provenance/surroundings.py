"""What stands around a refused operator.

Names in the failing frames, running modules with their hooks, maps, versions.

Looked for once for each distinct statement, so it may take its time. Must guarantee: nothing here raises,
whatever the objects of a script do when they are looked at; what cannot be read is left out.
"""

from __future__ import annotations

import ast
import dis
import linecache
import os
import re
import sys
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache, partial
from types import CodeType, FrameType, FunctionType, MethodType
from typing import Any, TypeVar

import torch

from samedevice.events import Running
from samedevice.provenance._reach import parts_held, tensors_reached
from samedevice.provenance._variables import variables_of
from samedevice.provenance.assignments import ADDS
from samedevice.provenance.dispatch import device_map_of, hook_device
from samedevice.provenance.syntax import parsed

_LIBRARIES = (
    "accelerate",
    "bitsandbytes",
    "deepspeed",
    "diffusers",
    "lightning",
    "optimum",
    "peft",
    "petals",
    "sentence_transformers",
    "timm",
    "torch",
    "torchmetrics",
    "transformers",
    "trl",
    "vllm",
)
_storage_of: Any = torch._C.TensorBase.untyped_storage  # as torch made it, also while a machine is entered
_FRAMES_LIMIT = 40
_ITEMS_LIMIT = 400
_DEPTH = 3
_HELD_LIMIT = 6
_WITHIN_LIMIT = 400
"""In how many objects of an object modules are looked for."""
_OF_EVERY_MODULE = frozenset(vars(torch.nn.Module()))
_MOST_PARTS = 4000
_DEEPEST_PART = 6


def versions() -> dict[str, str]:
    """Versions of the libraries that are loaded and matter to placement."""
    found = {}
    for name in _LIBRARIES:
        version = getattr(sys.modules.get(name), "__version__", None)
        if isinstance(version, str):
            found[name.replace("_", "-")] = str(version)
    return found


def processes() -> int:
    """How many processes the launcher started, as it tells each of them."""
    ranks = os.environ.get("WORLD_SIZE", "")
    return int(ranks) if ranks.isdecimal() and 0 < len(ranks) < 7 else 1


def modules_in(frames: Iterable[FrameType]) -> list[torch.nn.Module]:
    """Modules whose methods run in `frames`, in their order."""
    found: list[torch.nn.Module] = []
    for frame in frames:
        code = frame.f_code
        if code.co_argcount and code.co_varnames[0] == "self":
            owner = variables_of(frame).get("self")
            if isinstance(owner, torch.nn.Module) and not any(owner is known for known in found):
                found.append(owner)
    return found


def arguments_of(module: torch.nn.Module, frames: Iterable[FrameType]) -> list[tuple[str, torch.Tensor]]:
    """(name, tensor) of what the outermost of `frames` that runs a method of `module` was called with.

    Also tensors in containers that it was given, each by the expression that reaches it. Parameters to which
    the function may have given another value since are left out.
    """
    found: list[tuple[str, torch.Tensor]] = []
    for frame in frames:
        code = frame.f_code
        if not code.co_argcount or code.co_varnames[0] != "self":
            continue
        variables = variables_of(frame)
        if variables.get("self") is module and code.co_name == "_wrapped_call_impl":
            found = found or list(_called_with(module, variables))
        elif variables.get("self") is module:
            kept = set(code.co_varnames[1 : code.co_argcount + code.co_kwonlyargcount]) - _stored(code)
            found = [
                reached
                for name, value in variables.items()
                if name in kept and _carries(value)
                for reached in tensors_reached(value, name, _DEPTH - 1, _ITEMS_LIMIT)
                # what an object in a container keeps was not handed in
                if _is_record(value) or "." not in reached[0]
            ] or found
    return found


def _called_with(module: torch.nn.Module, variables: Mapping[str, Any]) -> Iterator[tuple[str, torch.Tensor]]:
    """What torch's own call of a module got, by the names that its `forward` has for it."""
    code = getattr(type(module).forward, "__code__", None)
    names = code.co_varnames[1 : code.co_argcount] if code is not None else ()
    given = dict(zip(names, variables.get("args", ()), strict=False)) | variables.get("kwargs", {})
    for name, value in given.items():
        if isinstance(value, (torch.Tensor, tuple, list, Mapping)):
            yield from tensors_reached(value, name, _DEPTH - 1, _ITEMS_LIMIT)


def _carries(value: Any) -> bool:
    """Whether what a function was given hands tensors to it: by itself, as a container, or as a record."""
    return isinstance(value, (torch.Tensor, tuple, list, Mapping)) or _is_record(value)


def _is_record(value: Any) -> bool:
    """Whether it is an object with fields, as a batch or a graph is, and none that keeps state of its own."""
    if isinstance(value, tuple):
        return hasattr(value, "_fields")
    return (
        hasattr(value, "__dict__")
        and not callable(value)
        and not isinstance(value, (torch.Tensor, torch.nn.Module, list, Mapping, type))
        and not keeps_state("", value)
        and not writes_itself(type(value))
    )


def _stored(code: CodeType) -> set[str]:
    """The variables that a function stores into; newer Pythons name two in one instruction."""
    stored: set[str] = set()
    for each in dis.get_instructions(code):
        if each.opname.startswith(("STORE_FAST", "DELETE_FAST", "STORE_DEREF")):
            stored.update(each.argval if isinstance(each.argval, tuple) else (each.argval,))
    return stored


def modules_held(frames: Iterable[FrameType]) -> list[torch.nn.Module]:
    """Modules in the variables of `frames`: they name parameters where no method of a module runs."""
    found: list[torch.nn.Module] = []
    for frame in frames:
        for value in variables_of(frame).values():
            if isinstance(value, torch.nn.Module) and not any(value is known for known in found):
                found.append(value)
    return found[:_HELD_LIMIT]


def modules_within(frames: Iterable[FrameType], depth: int = 1) -> list[torch.nn.Module]:
    """Modules that lists and objects in the variables of `frames` hold, the parts of a pipeline; and with
    more `depth` what these hold in turn, the models of a trainer's workers.
    """
    values = [value for frame in frames for value in variables_of(frame).values()]
    found: dict[int, torch.nn.Module] = {}
    seen = set(map(id, values))
    for _ in range(depth):
        parts = [part for value in values for part in parts_held(value) if id(part) not in seen]
        seen.update(map(id, parts))
        for part in parts:
            if isinstance(part, torch.nn.Module):
                found.setdefault(id(part), part)
        values = [part for part in parts if not isinstance(part, torch.nn.Module)][:_WITHIN_LIMIT]
    return list(found.values())[:_HELD_LIMIT]


def gradients_reached(frames: Sequence[FrameType], modules: Iterable[torch.nn.Module] = ()) -> frozenset[int]:
    """The identities of gradients: of parameters of modules, of those in variables and in what these keep."""
    held = [parameter for module in modules for parameter in module.parameters()]
    for frame in frames[:_FRAMES_LIMIT]:
        for value in variables_of(frame).values():
            if isinstance(value, torch.nn.Module):
                held += value.parameters()
                continue
            try:
                reached = list(tensors_reached(value, "", _DEPTH - 1, _ITEMS_LIMIT))
            except Exception:  # what a script keeps may refuse to be looked at
                continue
            held += [each for _, each in reached if isinstance(each, torch.nn.Parameter)]
    return frozenset(identity(each.grad) for each in held if each.grad is not None) - {0}


def name_of(modules: Sequence[torch.nn.Module]) -> str | None:
    """Qualified name of the first of `modules` below the outermost that has it.

    The innermost stands first.
    """
    if not modules:
        return None
    inner = modules[0]
    for root in reversed(modules):
        for name, module in root.named_modules():
            if module is inner:
                return name or type(root).__name__
    return type(inner).__name__


def parameter_names(modules: Sequence[torch.nn.Module]) -> dict[int, list[tuple[str, str]]]:
    """(qualified name, role) of all parameters and buffers of the outermost module.

    By the identity of their memory.
    """
    names: dict[int, list[tuple[str, str]]] = {}
    for root in reversed(modules):
        known_before = set(names)
        for role, pairs in (
            ("parameter", (*root.named_parameters(remove_duplicate=False), *_named_copies(root))),
            ("buffer", root.named_buffers(remove_duplicate=False)),
        ):
            for name, tensor in pairs:
                key = identity(tensor)
                if key in known_before:
                    continue  # an outer module has a longer name for it
                if key and all(name != known for known, _ in names.get(key, ())):
                    names.setdefault(key, []).append((name, role))
    return names


def owner_hook(modules: Sequence[torch.nn.Module], known: Sequence[tuple[str, str]]) -> str | None:
    """Where the hook of the module that owns a parameter, by the first of its names, brings it; None without
    such a hook or a name.
    """
    for root in reversed(modules) if known else ():
        try:
            owner = root.get_submodule(known[0][0].rpartition(".")[0])
        except (AttributeError, ValueError):
            continue
        if (where := hook_device(owner)) is not None:
            return where
    return None


def running(
    modules: Sequence[torch.nn.Module], device_of: Callable[[torch.Tensor], torch.device]
) -> tuple[Running, ...]:
    """The modules on the stack, innermost first, as records; `device_of` tells where a tensor is."""
    names: dict[int, str] = {}
    if modules:
        names = {id(module): name for name, module in modules[-1].named_modules()}
    return tuple(
        _record(module, names.get(id(module)) or type(module).__name__, id(module) in names, device_of)
        for module in modules
    )


def device_map(modules: Sequence[torch.nn.Module]) -> dict[str, str]:
    """The map by which the outermost dispatched module on the stack was placed; empty when none was."""
    return next((placed for module in reversed(modules) if (placed := device_map_of(module))), {})


_Key = TypeVar("_Key", int, "tuple[int, ...]")


class Names:
    """Names that the frames of a failing statement have for tensors, by the identity of their memory."""

    def __init__(self, frames: Sequence[FrameType]) -> None:
        self._local: dict[int, str] = {}
        self._views: dict[tuple[int, ...], str] = {}
        """Variables of the failing frame by what they show of their memory: several may share one."""
        self._shown: dict[str, tuple[int, ...]] = {}
        self._argument: dict[int, str] = {}
        self._holder: dict[int, str] = {}
        self.states: list[tuple[torch.Tensor, str]] = []
        """What objects that write into themselves keep, and their classes."""
        self._read_in_line: frozenset[str] = _names_in_line(frames[0]) if frames else frozenset()
        for number, frame in enumerate(frames[:_FRAMES_LIMIT]):
            try:
                self._read(frame, innermost=number == 0)
            except Exception:
                continue

    def local(self, tensor: torch.Tensor) -> str | None:
        """How the failing frame itself spells the tensor: `cos`, `self.rope_deltas`, `labels`."""
        key = identity(tensor)
        name, view = self._local.get(key), _view(key, tensor)
        shown = self._shown.get(name or "")
        return name if shown in (None, view) else self._views.get(view, name)

    def argument(self, key: int) -> str | None:
        """The parameter name by which the outermost function on the stack got the tensor."""
        return self._argument.get(key)

    def holder(self, key: int) -> str | None:
        """The class of the cache, or the name of the past, that keeps the tensor between steps."""
        return self._holder.get(key)

    def _read(self, frame: FrameType, innermost: bool) -> None:
        code = frame.f_code
        variables = variables_of(frame)
        parameters = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
        for name, value in variables.items():
            if isinstance(value, torch.Tensor):
                key = identity(value)
                if innermost:
                    self._spell(key, name)
                    self._shown[name] = _view(key, value)
                    self._keep(self._views, self._shown[name], name)
                if name in parameters:
                    self._argument[key] = name
            elif keeps_state(name, value) or (
                name in parameters and name != "self" and writes_itself(type(value))
            ):
                holder = type(value).__name__ if not isinstance(value, (tuple, list, dict)) else name
                written = None if keeps_state(name, value) else writes_itself(type(value))
                for path, tensor in tensors_reached(value, name, _DEPTH, _ITEMS_LIMIT):
                    attribute = re.split(r"[.\[]", path.removeprefix(f"{name}."))[0]
                    if written is None or attribute in written:
                        self._holder.setdefault(identity(tensor), holder)
                    if innermost:
                        self._spell(identity(tensor), path)
            elif name in parameters or innermost:
                if name != "self" and (isinstance(value, (tuple, list, dict)) or _is_record(value)):
                    depth = 2 if isinstance(value, (tuple, list, dict)) else 1
                    for path, tensor in tensors_reached(value, name, depth, _ITEMS_LIMIT):
                        if innermost:
                            self._spell(identity(tensor), path)
                        self._argument.setdefault(identity(tensor), path)
        if innermost:
            for name in code.co_names:
                if isinstance(value := frame.f_globals.get(name), torch.Tensor):
                    self._spell(identity(value), name)
            owner = variables.get("self")
            for name, value in _attributes(owner):
                self._read_state(f"self.{name}", value)
                for path, tensor in tensors_reached(value, f"self.{name}", 1, _ITEMS_LIMIT):
                    self._spell(identity(tensor), path)

    def _read_state(self, path: str, value: Any) -> None:
        """What an object that an attribute holds writes into itself."""
        written = () if isinstance(value, torch.nn.Module) else writes_itself(type(value))
        for attribute in written:
            kept = vars(value).get(attribute) if hasattr(value, "__dict__") else None
            for _, tensor in tensors_reached(kept, f"{path}.{attribute}", 1, _ITEMS_LIMIT):
                self._holder.setdefault(identity(tensor), type(value).__name__)
                self.states.append((tensor, type(value).__name__))

    def _spell(self, key: int, path: str) -> None:
        self._keep(self._local, key, path)

    def _keep(self, names: dict[_Key, str], key: _Key, path: str) -> None:
        """Keep a name: the first one, or one that the failing line itself reads."""
        known = names.get(key)
        if known is None or (path in self._read_in_line and known not in self._read_in_line):
            names[key] = path


def _view(key: int, tensor: torch.Tensor) -> tuple[int, ...]:
    """Memory, and which part of it in which shape."""
    if not key or tensor.layout != torch.strided:
        return (key,)
    return (key, int(tensor.storage_offset()), *map(int, tensor.shape))


def _names_in_line(frame: FrameType) -> frozenset[str]:
    """The names and chains of attributes in the line where a frame stands."""
    line = linecache.getline(frame.f_code.co_filename, frame.f_lineno, frame.f_globals)
    return frozenset(re.findall(r"[^\W\d]\w*(?:\.[^\W\d]\w*)*", line))


def writes_itself(kind: type) -> frozenset[str]:
    """The attributes of its object into which methods of a class, other than `__init__`, store.

    Such an object keeps something from one call to the next. Read from the class's source; a module is none.
    """
    if issubclass(kind, (torch.nn.Module, torch.Tensor, Mapping, tuple, list)):
        return frozenset()
    codes = (getattr(method, "__code__", None) for method in vars(kind).values())
    code = next((each for each in codes if each is not None), None)
    return (
        _stores("".join(linecache.getlines(code.co_filename)), kind.__name__)
        if code is not None
        else frozenset()
    )


@lru_cache(maxsize=64)
def _stores(source: str, name: str) -> frozenset[str]:
    tree = parsed(source)
    if tree is None:
        return frozenset()
    bodies = [node.body for node in ast.walk(tree) if isinstance(node, ast.ClassDef) and node.name == name]
    methods = [
        each
        for body in bodies
        for each in body
        if isinstance(each, ast.FunctionDef) and each.name != "__init__" and each.args.args
    ]
    written: set[str] = set()
    assigned = False
    for method in methods:
        owner = method.args.args[0].arg
        for node in _without_moves(method):
            written.update(_written_by(node, owner))
            assigned = assigned or _assigns(node, owner)
    return frozenset(written) if assigned else frozenset()


def _without_moves(method: ast.FunctionDef) -> Iterator[ast.AST]:
    """The nodes of a method, without assignments that give an attribute the same tensor on another device."""
    waiting: list[ast.AST] = [method]
    while waiting:
        node = waiting.pop()
        match node:
            case ast.Assign(targets=targets, value=ast.Call(func=ast.Attribute(attr="to" | "cuda" | "cpu"))):
                if not any(_part_of_a_tensor(each) for each in targets):
                    continue
        yield node
        waiting += ast.iter_child_nodes(node)


def _part_of_a_tensor(target: ast.expr) -> bool:
    """Whether a target is some rows of a tensor, and no item of a container."""
    return isinstance(target, ast.Subscript) and any(
        isinstance(each, ast.Slice) for each in ast.walk(target.slice)
    )


def _assigns(node: ast.AST, owner: str) -> bool:
    """Whether a node stores into an attribute of the object of a method."""
    stored = isinstance(node, (ast.Attribute, ast.Subscript)) and isinstance(node.ctx, ast.Store)
    return stored and ast.unparse(node).startswith(f"{owner}.")


def _written_by(node: ast.AST, owner: str) -> Iterator[str]:
    """The attribute of a method's object that a node stores into, or calls a method on that changes it."""
    target: ast.AST | None = node if _assigns(node, owner) else None
    match node:
        case ast.Call(func=ast.Attribute(value=of, attr=method)) if method.endswith("_") or method in ADDS:
            target = of
    while isinstance(target, (ast.Attribute, ast.Subscript)):
        if isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name):
            if target.value.id == owner:
                yield target.attr
            return
        target = target.value


def keeps_state(name: str, value: Any) -> bool:
    """Whether a variable holds what lives from one step to the next: a cache, a past."""
    kind = type(value).__name__
    if kind.endswith("Cache") or "Cache" in kind:
        return True
    return name.startswith(("past_key_value", "layer_past", "past", "cache", "kv_cache")) and isinstance(
        value, (tuple, list, dict)
    )


def identity(tensor: torch.Tensor) -> int:
    """Stands for the tensor's memory; 0 when it has none of its own."""
    try:
        return int(_storage_of(tensor)._cdata)
    except (NotImplementedError, RuntimeError, ValueError):  # the last: a lazy module's parameter
        return 0


def class_tensors(owner: Any) -> Iterator[tuple[str, torch.Tensor]]:
    """The tensors that the classes of an object have as attributes, which all their objects share."""
    for kind in type(owner).__mro__:
        if kind in (torch.nn.Module, object):
            return
        yield from (pair for pair in list(vars(kind).items()) if isinstance(pair[1], torch.Tensor))


def keeper(name: str | None, frames: Sequence[FrameType]) -> str | None:
    """The class of the module whose plain attribute a tensor is, or whose class has it.

    The failing frame, the first of `frames`, spells it `self.name`.
    """
    owner, _, attribute = (name or "").partition(".")
    for frame in frames[:1] if attribute.isidentifier() else ():
        module = variables_of(frame).get(owner)
        if not isinstance(module, torch.nn.Module):
            continue
        held = {**dict(class_tensors(module)), **vars(module)}
        if isinstance(held.get(attribute), torch.Tensor):
            return type(module).__name__
    return None


def kept_within(modules: Sequence[torch.nn.Module]) -> dict[int, str]:
    """The tensors that the parts of modules keep where nothing that moves a module looks, and the classes of
    these parts: in plain attributes, in objects, lists and functions that they hold, in modules that are no
    parts.
    """
    registered = {id(part) for root in modules for part in root.modules()}
    found: dict[int, str] = {}
    seen: set[int] = set()
    waiting = deque(
        (value, type(part).__name__, 0)  # how far from the part
        for root in reversed(modules)
        for part in root.modules()
        for name, value in list(vars(part).items())
        if name not in _OF_EVERY_MODULE
    )
    while waiting and len(seen) < _MOST_PARTS:
        value, kind, depth = waiting.popleft()
        if id(value) in seen or id(value) in registered:
            continue
        seen.add(id(value))
        if issubclass(type(value), torch.nn.Module):
            held: Iterable[Any] = (*value.parameters(), *value.buffers())
            for each in held:
                found.setdefault(identity(each), kind)
        elif issubclass(type(value), torch.Tensor):
            found.setdefault(identity(value), kind)
        elif depth < _DEEPEST_PART:
            waiting.extend((part, kind, depth + 1) for part in (*parts_held(value), *_enclosed(value)))
    return found


def _enclosed(value: Any) -> Iterator[Any]:
    """What a function of a program holds: of the function around it, its object, arguments given before."""
    if isinstance(value, partial):
        yield from (value.func, *value.args, *value.keywords.values())
    elif isinstance(value, MethodType):
        yield value.__self__
    elif isinstance(value, FunctionType):
        for cell in value.__closure__ or ():
            try:
                yield cell.cell_contents
            except ValueError:  # not bound yet
                continue


def _attributes(owner: Any) -> Iterator[tuple[str, Any]]:
    """What a method's object keeps under public names, and a module's own parameters and buffers."""
    yield from class_tensors(owner)
    for name, value in list(getattr(owner, "__dict__", {}).items())[:_ITEMS_LIMIT]:
        if name in ("_parameters", "_buffers"):
            yield from value.items()
        elif not name.startswith("_"):
            yield name, value


def _record(
    module: torch.nn.Module, name: str, registered: bool, device_of: Callable[[torch.Tensor], torch.device]
) -> Running:
    own = sorted({str(device_of(tensor)) for tensor in _own(module) if identity(tensor)})
    copies = [each for part in module.modules() for each in _copied(part)]
    below = sorted({str(device_of(tensor)) for tensor in (*module.parameters(), *copies) if identity(tensor)})
    return Running(
        name,
        type(module).__name__,
        hook_device(module),
        tuple(own),
        tuple(below),
        registered,
        replica=bool(vars(module).get("_is_replica")),
        repeated=sum(_repeated(part) for part in module.modules()),
    )


def _repeated(module: torch.nn.Module) -> int:
    """How many parts of a list have parts themselves, and a class that another one has, too."""
    if not isinstance(module, (torch.nn.ModuleList, torch.nn.Sequential)):
        return 0
    kinds = Counter(type(part) for part in module.children() if any(True for _ in part.children()))
    return sum(count for count in kinds.values() if count > 1)


def _own(module: torch.nn.Module) -> Iterator[torch.Tensor]:
    yield from module.parameters(recurse=False)
    yield from _copied(module)
    yield from module.buffers(recurse=False)


def _named_copies(root: torch.nn.Module) -> Iterator[tuple[str, torch.Tensor]]:
    for prefix, module in root.named_modules():
        for name, tensor in vars(module).get("_former_parameters", {}).items():
            yield f"{prefix}.{name}" if prefix else name, tensor


def _copied(module: torch.nn.Module) -> Iterator[torch.Tensor]:
    """The copies of parameters that a replica of `nn.DataParallel` has, which are no parameters of it."""
    yield from vars(module).get("_former_parameters", {}).values()
