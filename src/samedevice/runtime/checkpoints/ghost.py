"""Ghost checkpoints: weight files with true names, shapes and types and no bytes.

A safetensors file is a JSON header and data. The ghost has the true header and a hole in place of the data
(`truncate`): 14 GiB apparent, some kilobytes on disk. Loaders map the file and never touch a page. The user's
folder is not written to: the ghost lies in a temporary folder with links to the user's other files, and is
deleted when the machine is left.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch

from samedevice.errors import CheckpointError
from samedevice.runtime.checkpoints.safetensors import holes_of
from samedevice.runtime.engine import Engine
from samedevice.runtime.patching import Patch, With
from samedevice.runtime.state import MachineState, as_torch, current_machine

SHARD_BYTES = 5 << 30
"""Size of one file of a sharded ghost, as `save_pretrained` of transformers 4 splits."""

_DIFFUSERS_STEM = "diffusion_pytorch_model"
"""What diffusers calls the weights of a model."""
_WEIGHT_SUFFIXES = (".safetensors", ".bin", ".pt", ".pth", ".h5", ".msgpack", ".gguf", ".ckpt", ".index.json")
_DTYPE_NAMES = {
    torch.float64: "F64", torch.float32: "F32", torch.float16: "F16", torch.bfloat16: "BF16", torch.int64:
    "I64", torch.int32: "I32",
    torch.int16: "I16", torch.int8: "I8", torch.uint8: "U8", torch.bool: "BOOL", torch.float8_e4m3fn:
    "F8_E4M3",
    torch.float8_e5m2: "F8_E5M2",
}  # fmt: skip

Shapes = Mapping[str, tuple[tuple[int, ...], torch.dtype]]


def write_ghost(
    folder: Path, shapes: Shapes, shard_bytes: int = SHARD_BYTES, stem: str = "model"
) -> list[Path]:
    """Write `model.safetensors`, or shards and their index, into `folder`.

    Args:
        folder: an existing folder.
        shapes: for each tensor name its shape and type.
        shard_bytes: largest size of one file; a single tensor may exceed it.
        stem: what the library calls its weights, in the place of `model`.

    Returns:
        The weight files. Raises CheckpointError for a type that safetensors has no name for.
    """
    shards: list[dict[str, tuple[tuple[int, ...], torch.dtype]]] = [{}]
    size = 0
    for name, (shape, dtype) in shapes.items():
        nbytes = _nbytes(shape, dtype)
        if size and size + nbytes > shard_bytes:
            shards.append({})
            size = 0
        shards[-1][name] = (shape, dtype)
        size += nbytes
    if len(shards) == 1:
        return [_write_file(folder / f"{stem}.safetensors", shards[0])]
    files: list[Path] = []
    weight_map: dict[str, str] = {}
    for number, shard in enumerate(shards, 1):
        name = f"{stem}-{number:05d}-of-{len(shards):05d}.safetensors"
        files.append(_write_file(folder / name, shard))
        weight_map.update(dict.fromkeys(shard, name))
    total = sum(_nbytes(shape, dtype) for shape, dtype in shapes.values())
    index = {"metadata": {"total_size": total}, "weight_map": weight_map}
    (folder / f"{stem}.safetensors.index.json").write_text(json.dumps(index), encoding="utf-8")
    return files


def _nbytes(shape: tuple[int, ...], dtype: torch.dtype) -> int:
    count = 1
    for size in shape:
        count *= size
    return count * dtype.itemsize


def _write_file(path: Path, shapes: Shapes) -> Path:
    # Releases of transformers before 4.4x refuse a file without this metadata.
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    offset = 0
    for name, (shape, dtype) in shapes.items():
        if dtype not in _DTYPE_NAMES:
            raise CheckpointError(f"safetensors has no name for {dtype}, the type of {name}")
        end = offset + _nbytes(shape, dtype)
        header[name] = {"dtype": _DTYPE_NAMES[dtype], "shape": list(shape), "data_offsets": [offset, end]}
        offset = end
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with path.open("wb") as file:
        file.write(len(text).to_bytes(8, "little"))
        file.write(text)
        file.truncate(8 + len(text) + offset)
    return path


def has_weights(folder: Path) -> bool:
    """Whether a model folder holds anything that could be weights."""
    return any(entry.name.endswith(_WEIGHT_SUFFIXES) for entry in folder.iterdir() if not entry.is_dir())


class GhostLibrary:
    """The ghosts of one machine."""

    def __init__(self) -> None:
        self._root: Path | None = None
        self._made: dict[tuple[str, type, str], Path] = {}

    def close(self) -> None:
        """Delete the files; mapped ones stay readable for those who hold them."""
        if self._root is not None:
            shutil.rmtree(self._root, ignore_errors=True)
            self._root = None
        self._made.clear()

    def holds(self, file: str) -> bool:
        """Whether a file is a ghost's."""
        return self._root is not None and str(file).startswith(f"{self._root}{os.sep}")

    def folder_for(
        self, source: Path, model_class: type, dtype: Any, shapes: Shapes, stem: str = "model"
    ) -> Path:
        """A folder that looks like `source` and has ghost weights, called `stem`."""
        key = (str(source), model_class, str(dtype))
        if key not in self._made:
            if self._root is None:
                self._root = Path(tempfile.mkdtemp(prefix="samedevice-ghost-"))
            folder = self._root / str(len(self._made)) / source.name
            folder.mkdir(parents=True)
            for entry in source.iterdir():
                (folder / entry.name).symlink_to(entry.resolve())
            write_ghost(folder, shapes, stem=stem)
            self._made[key] = folder
        return self._made[key]


@contextlib.contextmanager
def _torch_as_it_is() -> Iterator[None]:
    """Work on the meta device without the machine looking on."""
    from torch.utils._python_dispatch import _disable_current_modes

    with as_torch():
        with _disable_current_modes():
            yield


def _transformers_shapes(model_class: Any, config: Any, dtype: Any) -> Shapes:
    """Names, shapes and types of a model's weights, from building it on the meta device."""
    import importlib

    try:
        no_init_weights = importlib.import_module("transformers.initialization").no_init_weights
    except (ImportError, AttributeError):
        no_init_weights = importlib.import_module("transformers.modeling_utils").no_init_weights
    with _torch_as_it_is(), torch.no_grad(), no_init_weights(), torch.device("meta"):
        before = torch.get_default_dtype()
        if isinstance(dtype, torch.dtype) and dtype.is_floating_point:
            torch.set_default_dtype(dtype)
        try:
            model = model_class(copy.deepcopy(config))
            model.tie_weights()
        finally:
            torch.set_default_dtype(before)
        return _shapes_of(model)


def _shapes_of(model: torch.nn.Module) -> Shapes:
    """Names, shapes and types of what a model would save; shared tensors once."""
    shapes: dict[str, tuple[tuple[int, ...], torch.dtype]] = {}
    seen: set[int] = set()
    for name, tensor in model.state_dict(keep_vars=True).items():
        if id(tensor) in seen or not isinstance(tensor, torch.Tensor):
            continue
        seen.add(id(tensor))
        shapes[name] = (tuple(tensor.shape), tensor.dtype)
    return shapes


def _diffusers_shapes(model_class: Any, folder: Path, dtype: torch.dtype) -> Shapes:
    """The same of a model of diffusers, whose configuration is in `folder`."""
    values = model_class.load_config(str(folder), local_files_only=True)
    with _torch_as_it_is(), torch.no_grad(), torch.device("meta"):
        model = model_class.from_config(values)
        return {
            name: (shape, dtype if kind.is_floating_point else kind)
            for name, (shape, kind) in _shapes_of(model).items()
        }


def _mapped(original: Any, machine: MachineState) -> Any:
    library, ghosts = machine.part(GhostLibrary), machine.part(Engine).transfers.ghosts

    def from_file(filename: Any, shared: bool = False, nbytes: int = 0, **kwargs: Any) -> Any:
        nbytes = kwargs.pop("size", nbytes)
        storage: Any = original(filename, shared, nbytes)
        start = storage.data_ptr()
        ghosts.extend((start + first, start + last) for first, last in holes_of(str(filename)))
        if library.holds(str(filename)):
            ghosts.append((start, start + storage.nbytes()))
        return storage

    return staticmethod(from_file)


def _loading(bound: Any, library: GhostLibrary) -> Any:
    original = bound.__func__

    @functools.wraps(original)  # petals reads the docstring when it is imported
    def from_pretrained(cls: Any, pretrained_model_name_or_path: Any, *args: Any, **kwargs: Any) -> Any:
        source = _folder_without_weights(pretrained_model_name_or_path, kwargs)
        if source is None:
            return original(cls, pretrained_model_name_or_path, *args, **kwargs)
        config = kwargs.get("config")
        if config is None or isinstance(config, (str, os.PathLike)):
            where = source if config is None else config
            config = cls.config_class.from_pretrained(
                where, trust_remote_code=kwargs.get("trust_remote_code", False)
            )
        dtype = _checkpoint_dtype(config)
        shapes = _transformers_shapes(cls, config, dtype)
        ghost = library.folder_for(source, cls, dtype, shapes)
        kwargs.pop("subfolder", None)  # the ghost is of that folder
        with _loading_in_this_thread():
            loaded = original(cls, str(ghost), *args, **kwargs)
        _restore_name(loaded, str(pretrained_model_name_or_path), str(ghost))
        return loaded

    return classmethod(from_pretrained)


def _loading_diffusers(bound: Any, library: GhostLibrary) -> Any:
    original = bound.__func__

    @functools.wraps(original)
    def from_pretrained(cls: Any, pretrained_model_name_or_path: Any, *args: Any, **kwargs: Any) -> Any:
        source = _folder_without_weights(pretrained_model_name_or_path, kwargs)
        if source is None:
            return original(cls, pretrained_model_name_or_path, *args, **kwargs)
        dtype = kwargs.get("dtype") or kwargs.get("torch_dtype")
        if not isinstance(dtype, torch.dtype):
            dtype = torch.float32  # as diffusers takes weights where nobody says
        ghost = library.folder_for(source, cls, dtype, _diffusers_shapes(cls, source, dtype), _DIFFUSERS_STEM)
        loaded = original(cls, str(ghost), **{**kwargs, "subfolder": None})
        loaded.register_to_config(_name_or_path=str(pretrained_model_name_or_path))
        return loaded

    return classmethod(from_pretrained)


@contextlib.contextmanager
def _loading_in_this_thread() -> Iterator[None]:
    """Transformers 5 reads weights in a pool of threads.

    For files without bytes their switching is all the time there is.
    """
    name = "HF_DEACTIVATE_ASYNC_LOAD"
    if name in os.environ:
        yield
        return
    os.environ[name] = "1"
    try:
        yield
    finally:
        os.environ.pop(name, None)


def _folder_without_weights(name: Any, kwargs: Mapping[str, Any]) -> Path | None:
    if (
        not isinstance(name, (str, os.PathLike))
        or kwargs.get("state_dict") is not None
        or kwargs.get("gguf_file")
    ):
        return None
    folder = Path(name) / (kwargs.get("subfolder") or "")
    if (
        not folder.is_dir()
        or not (folder / "config.json").is_file()
        or (folder / "adapter_config.json").exists()
    ):
        return None
    return None if has_weights(folder) else folder


def _checkpoint_dtype(config: Any) -> torch.dtype:
    dtype = getattr(config, "dtype", None) or getattr(config, "torch_dtype", None)
    if dtype is None:
        text_config = getattr(config, "text_config", None)
        dtype = getattr(text_config, "dtype", None) or getattr(text_config, "torch_dtype", None)
    if isinstance(dtype, str):
        dtype = getattr(torch, dtype.removeprefix("torch."), None)
    return dtype if isinstance(dtype, torch.dtype) else torch.float32


def _restore_name(loaded: Any, name: str, ghost: str) -> None:
    model = loaded[0] if isinstance(loaded, tuple) else loaded
    for holder, attribute in ((model, "name_or_path"), (getattr(model, "config", None), "_name_or_path")):
        if getattr(holder, attribute, None) == ghost:
            setattr(holder, attribute, name)


PATCHES = (
    Patch(
        "torch.UntypedStorage.from_file",
        With(current_machine, _mapped),
        "of a mapped file that is a ghost, or has holes, the engine would read bytes that mean nothing",
    ),
    Patch(
        "transformers.modeling_utils.PreTrainedModel.from_pretrained",
        With(lambda: current_machine().part(GhostLibrary), _loading),
        "a model folder without weights loads through the library's own loader",
        package="transformers.modeling_utils",
    ),
    Patch(
        "diffusers.models.modeling_utils.ModelMixin.from_pretrained",
        With(lambda: current_machine().part(GhostLibrary), _loading_diffusers),
        "a model folder without weights loads through the library's own loader",
        package="diffusers.models.modeling_utils",
    ),
)
