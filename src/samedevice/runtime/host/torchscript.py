"""TorchScript on a virtual machine.

What `torch.jit.script` hands back runs as the Python that it was made of: so each statement is seen, and
`x.device` is the machine's answer. Its graph, its code and its file are TorchScript's own. Loaded modules
have no Python any more and run in TorchScript's interpreter, whose operators reach the machine one by one.

Must guarantee: a file that is saved here holds values on the host, so that plain torch reads it; a machine
that reads it puts its tensors where they were.
"""

from __future__ import annotations

import functools
import inspect
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import torch
import torch.utils._python_dispatch
import torch.utils._pytree

from samedevice.errors import UnsupportedFeatureError
from samedevice.runtime.engine import HOST_LIMIT
from samedevice.runtime.patching import Constant, Patch, Patches
from samedevice.runtime.state import CPU, current_machine, is_virtual, plain, raw_is_meta
from samedevice.runtime.tensors import host_copy, move, seen_device
from samedevice.runtime.tracking import Tracker, warn_of_unknown

_TORCH = str(Path(torch.__file__).parent) + "/"
_DEVICES_FILE = "samedevice_devices.json"
_script: Any = torch.jit.script
_Compiled: Any = torch.jit._script.RecursiveScriptModule
_disable_modes: Any = torch.utils._python_dispatch._disable_current_modes
_OF_MODULES = frozenset(
    name for name in dir(_Compiled) if not name.startswith("__") and not hasattr(torch.nn.Module, name)
)


class ScriptedFunction:
    """A function that runs as Python and has TorchScript's attributes."""

    def __init__(self, function: Callable[..., Any], compile: Callable[[], Any]) -> None:
        functools.update_wrapper(self, function)
        self._compile = compile

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.__wrapped__(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or not hasattr(torch.jit.ScriptFunction, name):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return getattr(self._compile(), name)


class _ScriptedModule:
    """What `torch.jit.script` adds to a module's own class."""

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)  # type: ignore[misc]  # a module follows
        except AttributeError:
            if name not in _OF_MODULES:
                raise
        return getattr(_script(_original_of(self)), name)


@functools.cache
def _scripted_class(kind: Any) -> type:
    return type(
        kind.__name__,
        (_ScriptedModule, kind),
        {"__module__": kind.__module__, "__qualname__": kind.__qualname__},
    )


def _with_state_of(module: Any, kind: type) -> Any:
    made: Any = object.__new__(kind)
    object.__setattr__(made, "__dict__", module.__dict__)  # one state: what changes one changes the other
    return made


def _original_of(module: Any) -> Any:
    return _with_state_of(module, type(module).__mro__[2]) if isinstance(module, _ScriptedModule) else module


def _make_script(
    obj: Any = None, optimize: Any = None, _frames_up: int = 0, *args: Any, **options: Any
) -> Any:
    if obj is None or sys._getframe(1).f_code.co_filename.startswith(_TORCH):
        # torch compiles what a script calls, or something of its own, whose names are those of our caller.
        return _script(obj, optimize, _frames_up + 1, *args, **options)
    if isinstance(obj, _ScriptedModule):
        return obj
    if isinstance(obj, torch.nn.Module) and not isinstance(obj, torch.jit.ScriptModule):
        return _with_state_of(obj, _scripted_class(cast(Any, type(obj))))
    if inspect.isfunction(obj):
        return ScriptedFunction(
            obj, lambda: _script(obj, optimize, _frames_up, *args, **options)
        )  # which torch keeps
    return obj


def _is_scripted(is_instance: Any) -> Any:
    def check(kind: Any, value: Any) -> bool:
        if isinstance(value, _ScriptedModule) and kind in (torch.jit.ScriptModule, _Compiled):
            # torch asks for what only its own has
            return not sys._getframe(1).f_code.co_filename.startswith(_TORCH)
        return bool(is_instance(kind, value))

    return check


def _find(find: Any) -> Any:
    patches = current_machine().part(Patches)

    def find_builtin(function: Any) -> Any:
        return find(patches.original(function))

    return find_builtin


def _try_compile(compile_function: Any) -> Any:
    patches = current_machine().part(Patches)

    def try_compile(function: Any, place: Any) -> Any:
        return compile_function(patches.original(function), place)

    return try_compile


def _resolve(resolve: Any) -> Any:
    def names_of_closure(function: Any) -> Callable[[str], Any]:
        look_up = resolve(function)

        def compiled(name: str) -> Any:
            found = look_up(name)
            return found._compile() if isinstance(found, ScriptedFunction) else found

        return compiled

    return names_of_closure


def _apply(apply_script: Any) -> Any:
    def apply(self: Any, change: Callable[[torch.Tensor], torch.Tensor], recurse: bool = True) -> Any:
        _move_owned(self, change)
        return apply_script(self, change, recurse)

    return apply


def _on_host_only(trace: Callable[..., Any]) -> Callable[..., Any]:
    """What TorchScript's tracer writes of a machine's tensors is wrong.

    It writes in C++, above and below any dispatch mode.
    """

    @functools.wraps(trace)
    def traced(*args: Any, **kwargs: Any) -> Any:
        given = list(_tensors_of([*args, *kwargs.values()]))
        if any(is_virtual(tensor) for tensor in given):
            raise UnsupportedFeatureError(
                "torch.jit.trace with tensors on a GPU is not supported on a virtual machine. Trace "
                "model.cpu() with inputs on the host "
                "and move what is traced, or use torch.jit.script or torch.export, which work here."
            )
        with _disable_modes():
            return trace(*args, **kwargs)

    return traced


def _tensors_of(values: Any) -> Iterator[torch.Tensor]:
    for value in torch.utils._pytree.tree_leaves(values):
        if isinstance(value, torch.Tensor):
            yield value
        elif isinstance(value, torch.nn.Module):
            yield from value.parameters()
            yield from value.buffers()


def _of_compiled(change: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(change)
    def changed(module: Any, *args: Any, **kwargs: Any) -> Any:
        return change(
            _script(_original_of(module)) if isinstance(module, _ScriptedModule) else module, *args, **kwargs
        )

    return changed


# -- TorchScript's files


def _saving(save: Callable[..., Any]) -> Callable[..., Any]:
    tracker = current_machine().part(Tracker)

    @functools.wraps(save)
    def write(module: Any, *args: Any, **options: Any) -> Any:
        owned = list(_owned(module))
        if not any(is_virtual(tensor) for _, _, tensor in owned) and not any(_virtual_constants(module)):
            return save(module, *args, **options)
        if any(True for _ in _virtual_constants(module)):
            raise UnsupportedFeatureError(
                "Saving a traced module that holds a GPU tensor as a constant is not supported on a "
                "virtual machine; register the tensor as a buffer."
            )
        twin = module.__deepcopy__({})
        devices: dict[str, str] = {}
        total = unknown = 0
        for (_, name, tensor), (owner, path, _) in zip(owned, _owned(twin), strict=True):
            devices[name] = str(seen_device(tensor))
            host = host_copy(tensor.detach())
            total += 1
            if raw_is_meta(host):
                unknown += 1
                if tensor.numel() * tensor.element_size() > HOST_LIMIT:
                    raise UnsupportedFeatureError(
                        f"{name} is too large to be written as zeros on a virtual machine."
                    )
                host = plain.zeros(tensor.size(), dtype=tensor.dtype)
            _put(owner, path, tensor, host)
        if unknown:
            warn_of_unknown(tracker, unknown, total, "the file that torch.jit.save wrote")
        extra = {**(options.pop("_extra_files", None) or {}), _DEVICES_FILE: json.dumps(devices)}
        return save(twin, *args, _extra_files=extra, **options)

    return write


def _loading(original: Callable[..., Any]) -> Callable[..., Any]:
    def load(f: Any, map_location: Any = None, _extra_files: Any = None, **options: Any) -> Any:
        extra = {} if _extra_files is None else _extra_files
        extra[_DEVICES_FILE] = ""
        place = None if map_location is None else current_machine().device(map_location)
        try:
            module = original(f, place if place is None or place.type != "cuda" else CPU, extra, **options)
            saved = extra[_DEVICES_FILE]
        finally:
            del extra[_DEVICES_FILE]
        devices = json.loads(saved) if saved else {}
        for owner, path, tensor in list(_owned(module)):
            target = current_machine().device(devices.get(path, "cpu")) if place is None else place
            if target.type == "cuda":
                _put(owner, path, tensor, move(tensor.detach(), target))
        return module

    return load


def _owned(module: Any) -> Iterator[tuple[Any, str, torch.Tensor]]:
    """Each tensor of a TorchScript module: the module that holds it, its path and itself."""
    for prefix, owner in module.named_modules():
        held: Any = getattr(owner, "_c", None)
        found: list[Any] = [] if held is None else [torch._C.ParameterDict(held), torch._C.BufferDict(held)]
        for name, tensor in (pair for kind in found for pair in kind.items()):
            if isinstance(tensor, torch.Tensor):
                yield owner, f"{prefix}.{name}" if prefix else name, tensor


def _put(owner: Any, path: str, old: torch.Tensor, new: torch.Tensor) -> None:
    """Make `new` the tensor of a module in TorchScript's own memory.

    Python's `x.data = y` does not reach it in all cases.
    """
    owner._c.setattr(path.rpartition(".")[2], new.detach().requires_grad_(old.requires_grad))


def _move_owned(module: Any, change: Callable[[torch.Tensor], torch.Tensor]) -> None:
    """Tensors that become virtual, or stop to be, are other tensors for C++."""
    with torch.no_grad():
        for owner, path, tensor in list(_owned(module)):
            changed = change(tensor.detach())
            if raw_is_meta(changed) != raw_is_meta(tensor):
                _put(owner, path, tensor, changed)


def _virtual_constants(module: Any) -> Iterator[torch.Tensor]:
    for owner in module.modules():
        for name in owner._c._method_names():
            for node in owner._c._get_method(name).graph.findAllNodes("prim::Constant"):
                if node.hasAttribute("value") and node.kindOf("value") == "t":
                    tensor = node.t("value")
                    if is_virtual(tensor) and tensor.dim():
                        yield tensor


_RUNS = "what is scripted runs as Python, so that each statement is seen"
_NAMES = "TorchScript knows torch's functions by identity, and would not find those that are replaced"
_FILE = "a file holds values on the host, so that plain torch reads it, and the devices beside them"
PATCHES = (
    Patch("torch.jit.script", Constant(_make_script), _RUNS),
    Patch(
        "torch.jit._script.ScriptMeta.__instancecheck__",
        _is_scripted,
        "programs check that what `torch.jit.script` gave them is its module",
    ),
    Patch("torch._jit_internal.createResolutionCallbackFromClosure", _resolve, _RUNS),
    Patch(
        "torch.jit.ScriptModule._apply",
        _apply,
        "Python's `x.data = y` does not reach TorchScript's own memory in all cases",
    ),
    Patch("torch.jit._builtins._find_builtin", _find, _NAMES, every="torch.jit."),
    Patch("torch.jit._recursive.try_compile_fn", _try_compile, _NAMES, every="torch.jit."),
    *(
        Patch(
            f"torch.jit._trace.{name}",
            _on_host_only,
            "the tracer writes in C++, and what it writes of a machine's tensors is wrong",
            every="torch.jit",
        )
        for name in ("trace", "trace_module", "_get_trace_graph")
    ),
    *(
        Patch(
            f"torch.jit.{name}",
            _of_compiled,
            "they take TorchScript's module, which a module that runs as Python makes when asked",
            every="torch.jit",
        )
        for name in ("freeze", "optimize_for_inference")
    ),
    Patch("torch.jit.ScriptModule.save", lambda original: _saving(_Compiled.save), _FILE),
    Patch("torch.jit._script.RecursiveScriptModule.save", _saving, _FILE),
    Patch("torch.jit._script.RecursiveScriptModule.save_to_buffer", _saving, _FILE),
    Patch("torch.jit.load", _loading, _FILE, every="torch.jit"),
)
