"""What torch, transformers, accelerate, peft, trl and DeepSpeed do as far as placement goes.

Everything else cannot be told.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

from samedevice.static.arguments import Parser, fill_dataclass, parsed_dataclasses
from samedevice.static.python import method, truth
from samedevice.static.reader import Frame, Reader, Stopped
from samedevice.static.tensors.knowledge import FACTORIES, OPTIMIZERS
from samedevice.static.values import (
    ANYWHERE,
    HOST,
    UNKNOWN,
    Bound,
    Checkpoint,
    Class,
    Device,
    External,
    Function,
    Instance,
    Model,
    Optimizer,
    Origin,
    Parameters,
    Placement,
    Tensor,
    Text,
    device_of,
    known,
)

Call = tuple[list[Any], dict[str, Any], ast.AST, Frame]
_NO_MODELS = (
    "Tokenizer",
    "TokenizerFast",
    "Processor",
    "Config",
    "Extractor",
    "Dataset",
    "Scheduler",
    "Vocabulary",
)
_MODEL_LIBRARIES = (
    "transformers",
    "diffusers",
    "trl",
    "unsloth",
    "modelscope",
    "optimum",
    "auto_gptq",
    "awq",
    "sentence_transformers",
    "peft",
)
_SAME_MODEL = frozenset(
    "train eval half float bfloat16 double requires_grad_ gradient_checkpointing_enable to_bettertransformer "
    "enable_input_require_grads merge_and_unload base_model apply tie_weights".split()
)
_WRAPS_MODEL = frozenset(
    "get_peft_model prepare_model_for_kbit_training prepare_model_for_int8_training "
    "prepare_model_for_training compile".split()
)


def library_attribute(reader: Reader, owner: External, name: str) -> Any:
    """An attribute of a library's module or class."""
    if owner.name == "sys" and name == "argv":
        script = str(reader.process.start.script or "")
        return [script, *reader.process.start.arguments]
    return External(f"{owner.name}.{name}")


def call_library(
    reader: Reader,
    function: Any,
    positional: list[Any],
    keywords: dict[str, Any],
    node: ast.AST,
    frame: Frame,
) -> Any:
    """A call of something that is not the user's own."""
    call: Call = (positional, keywords, node, frame)
    if isinstance(function, Class):
        return _local_class(reader, function, call)
    if isinstance(function, External):
        return _external(reader, function, call)
    if isinstance(function, Bound):
        return _method(reader, function, call)
    if isinstance(function, (Model, Instance)):
        return _forward(reader, function, call)
    return UNKNOWN


def _as_call(node: ast.AST) -> ast.Call:
    return node if isinstance(node, ast.Call) else ast.Call(ast.Name("_"), [], [])


# Functions and classes of libraries


def _external(reader: Reader, function: External, call: Call) -> Any:
    """A function or class of a library: by its whole name, by its last part, by a part of its name."""
    name, last = function.name, function.last
    handler = _HANDLERS.get(name) or _HANDLERS.get(_tail(name, 3)) or _BY_LAST.get(last)
    if handler is not None:
        return handler(reader, call)
    for applies, action in _BY_PART:
        if applies(name, last):
            return action(reader, function, call)
    return UNKNOWN


def _same_model(reader: Reader, function: External, call: Call) -> Any:
    given = (*call[0], *call[1].values())
    return next((each for each in given if isinstance(each, (Model, Instance))), UNKNOWN)


def _functional(reader: Reader, function: External, call: Call) -> Any:
    _positional, _keywords, node, frame = call
    tensors = _tensors(call)
    loss = "loss" in function.last or "cross_entropy" in function.last
    reader.meet(tensors, node, frame, "loss" if loss else "operands")
    return _like(tensors)


def _instance(reader: Reader, function: External, call: Call) -> Any:
    return Instance(function)


def _instance_with_options(reader: Reader, function: External, call: Call) -> Any:
    return Instance(function, {key: value for key, value in call[1].items() if key != "**"})


def _container(reader: Reader, function: External, call: Call) -> Any:
    parts = [each for each in call[0] if isinstance(each, Instance)]
    return Instance(function, {str(number): part for number, part in enumerate(parts)})


def _made_tensor(reader: Reader, function: External, call: Call) -> Any:
    keywords = call[1]
    return Tensor(reader.process.device(keywords["device"]) if "device" in keywords else Device("cpu"))


def _training_arguments(reader: Reader, function: External, call: Call) -> Any:
    made: Instance = _instance_with_options(reader, function, call)
    _arguments_made(reader, made, call[2], call[3])
    return made


def _argument_parser(reader: Reader, function: External, call: Call) -> Any:
    first = call[0][0] if call[0] else None
    return Instance(function, {"kinds": first if isinstance(first, (list, tuple)) else [first]})


def _namespace(reader: Reader, function: External, call: Call) -> Any:
    return Instance(External("argparse.Namespace"), dict(call[1]))


def _tail(name: str, count: int) -> str:
    return ".".join(name.split(".")[-count:])


def _load(reader: Reader, function: External, call: Call) -> Any:
    positional, _keywords, _node, _frame = call
    owner = function.name.split(".")[-2] if "." in function.name else ""
    if function.last == "SentenceTransformer":
        owner = "SentenceTransformerModel"
    first = positional[0] if positional else None
    if isinstance(first, (Model, Instance)) and isinstance(first, Model):
        return first  # PeftModel.from_pretrained(model, ...)
    if (
        owner.endswith(_NO_MODELS)
        or owner in ("GenerationConfig", "LoraConfig")
        or function.name.split(".")[0] not in _MODEL_LIBRARIES
    ):
        return Instance(External(function.name))
    return loaded(reader, owner, function.last, call)


def loaded(reader: Reader, owner: str, how: str, call: Call) -> Any:
    """A model that `from_pretrained` or the like gives."""
    _positional, keywords, node, frame = call
    process = reader.process
    device_map = keywords.get("device_map")
    spare = keywords.get("model_kwargs")
    if device_map is None and isinstance(spare, dict):
        device_map = spare.get("device_map")
    implied = False
    if "FastLanguageModel" in owner or owner in ("FastModel", "FastVisionModel"):
        implied = device_map is None
        device_map = device_map if device_map is not None else "sequential"
    untold = "**" in keywords and "device_map" not in keywords
    config = keywords.get("quantization_config")
    bits = _bits(keywords, config)
    placement = ANYWHERE if untold else process.placement(device_map, keywords.get("max_memory"))
    if bits and device_map is None and not untold:
        placement = Placement("device", (f"cuda:{process.local_rank if process.world > 1 else 0}",))
    sharded = keywords.get("tp_plan") is not None or keywords.get("tp_size") is not None
    if sharded:
        placement = Placement("device", (f"cuda:{process.local_rank}",))
    model = Model(placement, frame.module.file, _as_call(node), device_map, bits, sharded=sharded)
    if how != "from_config":
        reader.note(
            "load",
            node,
            frame,
            model=model,
            map=device_map,
            placement=placement,
            owner=owner,
            name=call[0][0] if call[0] else keywords.get("pretrained_model_name_or_path"),
            bits=bits,
            zero3=process.zero3,
            sharded=sharded,
            implied=implied,
            low_memory=keywords.get("low_cpu_mem_usage"),
        )
    return (model, UNKNOWN) if owner in ("FastLanguageModel", "FastModel", "FastVisionModel") else model


def _bits(keywords: dict[str, Any], config: Any) -> int:
    """4 or 8 when the load is quantized by bitsandbytes, 1 for another quantization, 0 for none."""
    sources = [keywords, config.attributes if isinstance(config, Instance) else {}]
    for source in sources:
        for name, bits in (("load_in_4bit", 4), ("load_in_8bit", 8)):
            if truth(source.get(name)) is True:
                return bits
    return 0 if config is None or not isinstance(config, Instance) else 1


def _trainer(reader: Reader, function: Any, call: Call) -> Any:
    positional, keywords, node, frame = call
    model = keywords.get("model", positional[0] if positional else None)
    arguments = keywords.get("args", positional[1] if len(positional) > 1 else None)
    name = function.last if isinstance(function, External) else function.node.name
    reader.note("trainer", node, frame, model=model, arguments=arguments, name=name)
    return Instance(
        function if isinstance(function, External) else External("transformers.Trainer"), {"model": model}
    )


def _lightning(reader: Reader, function: External, call: Call) -> Any:
    """Lightning's `Trainer` starts the other processes itself, unless a launcher did.

    Each runs the script from its top.
    """
    _positional, keywords, node, frame = call
    strategy, nodes = keywords.get("strategy", "auto"), keywords.get("num_nodes", 1)
    options = strategy.attributes if isinstance(strategy, Instance) else {}
    kind = (
        strategy.kind.last.lower()
        if isinstance(strategy, Instance) and isinstance(strategy.kind, External)
        else str(strategy)
    )
    stage = options.get(
        "stage", next((int(each) for each in kind if each.isdigit()), 2)
    )  # `deepspeed_stage_3`
    by = "FSDP" if "fsdp" in kind else "DeepSpeed" if "deepspeed" in kind else "DDP"
    count = (
        1
        if keywords.get("accelerator") in ("cpu", "mps", "tpu") or kind == "dp"
        else _counted(keywords.get("devices", "auto"))
    )
    count = reader.process.gpus if count == -1 else count
    reader.note(
        "lightning",
        node,
        frame,
        count=count,
        nodes=nodes if isinstance(nodes, int) else 1,
        by=by,
        stage=stage,
    )
    return Instance(function)


def _counted(devices: Any) -> int | None:
    """How many GPUs Lightning's `devices` means; -1 for all, None when it cannot be told."""
    if isinstance(devices, (list, tuple)):
        return len(devices)
    if isinstance(devices, str):
        return (
            -1
            if devices in ("auto", "-1")
            else len([each for each in devices.split(",") if each])
            if "," in devices
            else _whole(devices)
        )
    return devices if isinstance(devices, int) and not isinstance(devices, bool) else None


def _whole(text: str) -> int | None:
    return int(text) if text.strip().isdigit() else None


def _optimizer(reader: Reader, name: str, call: Call) -> Any:
    positional, keywords, node, frame = call
    model = _owner_of([*positional, *keywords.values()])
    placement = placement_of(model)
    made = Optimizer(name, model, frame.module.file, _as_call(node), placement)
    reader.note("optimizer", node, frame, optimizer=made, model=model, placement=placement)
    return made


def _owner_of(values: Any) -> Any:
    """The model whose parameters these are."""
    for value in values:
        if isinstance(value, Parameters):
            return value.model
        inner = (
            list(value.values())
            if isinstance(value, dict)
            else value
            if isinstance(value, (list, tuple))
            else ()
        )
        if inner and (found := _owner_of(inner)) is not None:
            return found
    return None


def placement_of(model: Any) -> Placement:
    """Where a model's weights are now."""
    if isinstance(model, Model):
        return model.placement
    if isinstance(model, Instance):
        parts = [
            placement_of(each) for each in model.attributes.values() if isinstance(each, (Model, Instance))
        ]
        if model.moved or not parts:
            return model.placement
        names = sorted({name for part in parts for name in part.devices if name.startswith("cuda")})
        if len(names) > 1:
            return Placement("split", tuple(names))
        if names and all(part.kind == "device" for part in parts):
            return Placement("device", tuple(names))
        return Placement("device", tuple(names)) if names else HOST
    return ANYWHERE


def _accelerator(reader: Reader, function: External, call: Call) -> Any:
    _positional, keywords, _, _ = call
    process = reader.process
    if (
        process.start.distributed_type == "DEEPSPEED"
        and process.start.zero_stage == 3
        and function.last == "Accelerator"
    ):
        process.zero3 = True
    plugin = keywords.get("deepspeed_plugin")
    if isinstance(plugin, Instance) and plugin.attributes.get("zero_stage") == 3:
        process.zero3 = True
    if process.world > 1:
        process.placed_current = True
        process.current = process.local_rank
    return Instance(function)


def _arguments_made(reader: Reader, made: Instance, node: ast.AST, frame: Frame) -> None:
    """`TrainingArguments` chooses the device, and DeepSpeed or FSDP where it is told to."""
    process = reader.process
    if process.world > 1:
        process.placed_current = True
        process.current = process.local_rank
    asked, fsdp = made.attributes.get("deepspeed"), made.attributes.get("fsdp")
    stage = process.stage_of(asked)
    if asked and asked is not UNKNOWN:
        reader.note("sharding", node, frame, by="DeepSpeed", stage=stage)
    elif process.world > 1 and (fsdp is True or (isinstance(fsdp, (str, list, tuple)) and fsdp)):
        options = made.attributes.get("fsdp_config")
        versions = (
            [options.get(key) for key in ("version", "fsdp_version")] if isinstance(options, dict) else []
        )
        reader.note("sharding", node, frame, by="FSDP2" if 2 in versions else "FSDP")
    if stage == 3 or (process.start.zero_stage == 3 and (asked is not None or process.start.by_accelerate)):
        process.zero3 = True


def _local_class(reader: Reader, kind: Class, call: Call) -> Any:
    """A class of the user's own that derives from one that matters."""
    positional, keywords, node, frame = call
    if kind.derives("Trainer"):
        return _trainer(reader, kind, call)
    if kind.derives("TrainingArguments") or kind.derives("SFTConfig"):
        made = Instance(kind)
        fill_dataclass(made, kind, positional, keywords)
        _arguments_made(reader, made, node, frame)
        return made
    return UNKNOWN


# Named functions


def _environ_get(reader: Reader, call: Call) -> Any:
    positional = call[0]
    if not positional or not isinstance(positional[0], str):
        return UNKNOWN
    default = positional[1] if len(positional) > 1 else call[1].get("default")
    return reader.process.variable(positional[0], default, len(positional) > 1 or "default" in call[1])


def _environ_set(reader: Reader, call: Call) -> Any:
    positional = call[0]
    if (
        len(positional) == 2
        and isinstance(positional[0], str)
        and positional[0] not in reader.process.environment
    ):
        reader.process.set_variable(positional[0], positional[1])
    return UNKNOWN


def _set_device(reader: Reader, call: Call) -> Any:
    value = call[0][0] if call[0] else call[1].get("device")
    found = device_of(value)
    reader.process.placed_current = True
    if (
        found is not None and found.index is not None and found.index >= 0
    ):  # torch takes a negative index as no change
        reader.process.current = found.index
    else:
        reader.process.current = reader.process.local_rank if value is UNKNOWN else reader.process.current
    reader.note("set-device", call[2], call[3], index=found.index if found else None)
    return None


def _start_group(reader: Reader, call: Call) -> Any:
    backend = call[1].get("backend", call[0][0] if call[0] else None)
    reader.process.group = str(backend) if isinstance(backend, str) else "nccl"
    if isinstance(call[1].get("device_id"), (Device, int)):
        reader.process.placed_current = True
    reader.note("group", call[2], call[3], backend=reader.process.group, placed=reader.process.placed_current)
    return None


def _ranks(what: str) -> Callable[[Any, Call], Any]:
    def answer(reader: Reader, call: Call) -> Any:
        process = reader.process
        if what == "world":
            return process.world
        return process.local_rank if what == "local" else process.rank

    return answer


def _device(reader: Reader, call: Call) -> Any:
    positional, keywords, _, _ = call
    first = positional[0] if positional else keywords.get("device", keywords.get("type"))
    if isinstance(first, str) and len(positional) > 1:
        return Device(first, positional[1]) if isinstance(positional[1], int) else UNKNOWN
    if isinstance(first, str) and isinstance(keywords.get("index"), int):
        return Device(first, keywords["index"])
    found = device_of(first)
    return found if found is not None else UNKNOWN


def _device_context(reader: Reader, call: Call) -> Any:
    found = device_of(call[0][0]) if call[0] else None
    return Bound(found.index, "device-context") if found is not None and found.index is not None else UNKNOWN


def _torch_load(reader: Reader, call: Call) -> Any:
    positional, keywords, node, frame = call
    mapped = len(positional) > 1 or "map_location" in keywords or "**" in keywords
    return Checkpoint(frame.module.file, _as_call(node), mapped)


def _data_parallel(reader: Reader, call: Call) -> Any:
    return _wrap(reader, call, "DataParallel")


def _distributed(reader: Reader, call: Call) -> Any:
    return _wrap(reader, call, "DDP")


def _fsdp(reader: Reader, call: Call) -> Any:
    return _wrap(reader, call, "FSDP")


def _fully_shard(reader: Reader, call: Call) -> Any:
    return _wrap(reader, call, "FSDP2")


def _wrap(reader: Reader, call: Call, kind: str) -> Any:
    positional, keywords, node, frame = call
    model = positional[0] if positional else keywords.get("module", keywords.get("model"))
    ids = keywords.get("device_ids", positional[1] if len(positional) > 1 else None)
    reader.note(
        "wrap",
        node,
        frame,
        by=kind,
        model=model,
        ids=ids,
        placement=placement_of(model),
        current=reader.process.current,
    )
    if isinstance(model, (Model, Instance)):
        if isinstance(model, Model):
            model.wrapped = kind
        return model
    return UNKNOWN


def _deepspeed_initialize(reader: Reader, call: Call) -> Any:
    keywords = call[1]
    model = keywords.get("model", call[0][1] if len(call[0]) > 1 else None)
    config = keywords.get("config", keywords.get("config_params"))
    stage = reader.process.stage_of(config)
    stage = stage if stage is not None else reader.process.start.zero_stage
    reader.note(
        "wrap",
        call[2],
        call[3],
        by="DeepSpeed",
        model=model,
        stage=stage,
        placement=placement_of(model),
        current=reader.process.current,
    )
    return (model if model is not None else UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN)


def _hf_deepspeed(reader: Reader, call: Call) -> Any:
    config = call[0][0] if call[0] else call[1].get("config_file_or_dict")
    stage = reader.process.stage_of(config)
    reader.process.zero3 = (stage if stage is not None else reader.process.start.zero_stage) == 3
    return Instance(External("transformers.integrations.HfDeepSpeedConfig"))


def _zero3_enabled(reader: Reader, call: Call) -> Any:
    return reader.process.zero3 or (reader.process.start.zero_stage == 3)


def _fsdp_enabled(reader: Reader, call: Call) -> Any:
    return reader.process.start.distributed_type == "FSDP"


def _pipeline(reader: Reader, call: Call) -> Any:
    positional, keywords, _node, _frame = call
    if any(isinstance(each, Model) for each in (*positional, *keywords.values())):
        return UNKNOWN
    made = loaded(reader, "pipeline", "from_pretrained", call)
    return Instance(External("transformers.Pipeline"), {"model": made})


def _dispatch(reader: Reader, call: Call) -> Any:
    positional, keywords, node, frame = call
    model = positional[0] if positional else keywords.get("model")
    device_map = keywords.get("device_map", positional[-1] if len(positional) > 1 else None)
    placement = (
        reader.process.placement(device_map, keywords.get("max_memory")) if known(device_map) else ANYWHERE
    )
    if isinstance(model, Model):
        model.placement, model.map = placement, device_map
    target = (
        model if isinstance(model, Model) else Model(placement, frame.module.file, _as_call(node), device_map)
    )
    reader.note(
        "load",
        node,
        frame,
        model=target,
        map=device_map,
        placement=placement,
        owner="dispatch_model",
        bits=0,
        zero3=reader.process.zero3,
    )
    return target


def _inferred_map(reader: Reader, call: Call) -> Any:
    """`infer_auto_device_map(model, max_memory)`: all GPUs, unless the limits leave fewer."""
    limits = call[1].get("max_memory", call[0][1] if len(call[0]) > 1 else None)
    origin = Origin(
        call[3].module.file,
        getattr(call[2], "lineno", 1),
        call[2] if isinstance(call[2], ast.expr) else None,
        "call",
    )
    if isinstance(limits, dict) and len(reader.process.placement("auto", limits).devices) < 2:
        return UNKNOWN
    return Text("auto", origin)


def _kbit_map(reader: Reader, call: Call) -> Any:
    return {"": reader.process.local_rank if reader.process.world > 1 else 0}


def _device_count(reader: Reader, call: Call) -> Any:
    return reader.process.gpus if reader.process.gpus is not None else UNKNOWN


def _spawn(reader: Reader, call: Call) -> Any:
    """`torch.multiprocessing.spawn(function, args, nprocs)`."""
    positional, keywords, node, frame = call
    function = positional[0] if positional else keywords.get("fn")
    arguments = keywords.get("args", positional[1] if len(positional) > 1 else ())
    count = keywords.get("nprocs", positional[2] if len(positional) > 2 else None)
    process = reader.process
    process.spawned = count if isinstance(count, int) else process.gpus
    process.local_rank = (
        min(max(0, (process.spawned or 1) - 1), max(0, len(process.start.gpus) - 1)) if process.last else 0
    )
    if isinstance(function, Function):
        reader.call(
            function,
            [process.local_rank, *(arguments if isinstance(arguments, (list, tuple)) else ())],
            {},
            node,
            frame,
        )
    process.spawned = None
    return UNKNOWN


def _notebook(reader: Reader, call: Call) -> Any:
    """`accelerate.notebook_launcher(function, args, num_processes)`."""
    positional, keywords, node, frame = call
    function = positional[0] if positional else keywords.get("function")
    arguments = keywords.get("args", positional[1] if len(positional) > 1 else ())
    count = keywords.get("num_processes", positional[2] if len(positional) > 2 else None)
    process = reader.process
    several = count if isinstance(count, int) else (process.gpus or 1)
    before = dict(process.environment)
    rank = several - 1 if process.last else 0
    process.spawned = several
    process.local_rank = rank
    if several > 1:
        process.environment |= {"LOCAL_RANK": str(rank), "RANK": str(rank), "WORLD_SIZE": str(several)}
    if isinstance(function, Function):
        reader.call(
            function, list(arguments) if isinstance(arguments, (list, tuple)) else [], {}, node, frame
        )
    process.environment = before
    process.spawned = None
    return UNKNOWN


def _fire(reader: Reader, call: Call) -> Any:
    function = call[0][0] if call[0] else call[1].get("component")
    if isinstance(function, Function):
        given = reader.process.given()
        return reader.call(function, [], given, call[2], call[3])
    return UNKNOWN


def _field(reader: Reader, call: Call) -> Any:
    """`dataclasses.field(...)`."""
    if "default" in call[1]:
        return call[1]["default"]
    factory = call[1].get("default_factory")
    if isinstance(factory, Function):
        return reader.call(factory, [], {}, call[2], call[3])
    return (
        []
        if isinstance(factory, External) and factory.last == "list"
        else {}
        if isinstance(factory, External) and factory.last == "dict"
        else UNKNOWN
    )


def _exit(reader: Reader, call: Call) -> Any:
    raise Stopped


def _constant(value: Any) -> Callable[[Any, Call], Any]:
    return lambda reader, call: value


_HANDLERS: dict[str, Callable[[Any, Call], Any]] = {
    "os.environ.get": _environ_get,
    "os.getenv": _environ_get,
    "os.environ.setdefault": _environ_set,
    "sys.exit": _exit,
    "torch.cuda.set_device": _set_device,
    "torch.accelerator.set_device_index": _set_device,
    "torch.cuda.device_count": _device_count,
    "torch.accelerator.device_count": _device_count,
    "torch.cuda.is_available": _constant(True),
    "torch.accelerator.is_available": _constant(True),
    "torch.distributed.is_available": _constant(True),
    "torch.xpu.is_available": _constant(False),
    "torch.npu.is_available": _constant(False),
    "torch.backends.mps.is_available": _constant(False),
    "torch.cuda.current_device": lambda reader, call: reader.process.current,
    "torch.cuda.device": _device_context,
    "torch.device": _device,
    "torch.load": _torch_load,
    "torch.distributed.init_process_group": _start_group,
    "deepspeed.init_distributed": _start_group,
    "torch.distributed.is_initialized": lambda reader, call: (
        reader.process.group is not None or (reader.process.placed_current and reader.process.world > 1)
    ),
    "torch.distributed.get_rank": _ranks("global"),
    "torch.distributed.get_local_rank": _ranks("local"),
    "torch.distributed.get_node_local_rank": _ranks("local"),
    "torch.distributed.get_world_size": _ranks("world"),
    "torch.multiprocessing.spawn": _spawn,
    "torch.multiprocessing.start_processes": _spawn,
    "multiprocessing.spawn": _spawn,
    "argparse.ArgumentParser": lambda reader, call: Parser(),
    "fire.Fire": _fire,
    "dataclasses.field": _field,
    "deepspeed.initialize": _deepspeed_initialize,
    "deepspeed.add_config_arguments": lambda reader, call: _deepspeed_options(call),
}
_BY_LAST: dict[str, Callable[[Any, Call], Any]] = {
    "DataParallel": _data_parallel,
    "DistributedDataParallel": _distributed,
    "FullyShardedDataParallel": _fsdp,
    "fully_shard": _fully_shard,
    "HfDeepSpeedConfig": _hf_deepspeed,
    "is_deepspeed_zero3_enabled": _zero3_enabled,
    "is_fsdp_enabled": _fsdp_enabled,
    "dispatch_model": _dispatch,
    "load_checkpoint_and_dispatch": _dispatch,
    "notebook_launcher": _notebook,
    "infer_auto_device_map": _inferred_map,
    "pipeline": _pipeline,
    "get_kbit_device_map": _kbit_map,
    "set_seed": _constant(None),
    "is_ipex_available": _constant(False),
    "is_xpu_available": _constant(False),
    "is_torch_npu_available": _constant(False),
    "is_npu_available": _constant(False),
    "is_torch_xla_available": _constant(False),
    "BitsAndBytesConfig": lambda reader, call: Instance(
        External("transformers.BitsAndBytesConfig"), dict(call[1])
    ),
    "DeepSpeedPlugin": lambda reader, call: Instance(External("accelerate.DeepSpeedPlugin"), dict(call[1])),
}


_LIGHTNING = ("lightning.", "pytorch_lightning.", "lightning_fabric.")
_BY_PART: tuple[tuple[Callable[[str, str], bool], Callable[[Reader, External, Call], Any]], ...] = (
    (
        lambda name, last: (
            last
            in (
                "from_pretrained",
                "from_config",
                "from_single_file",
                "from_quantized",
                "SentenceTransformer",
            )
        ),
        _load,
    ),
    (lambda name, last: last in ("Trainer", "Fabric") and name.startswith(_LIGHTNING), _lightning),
    (lambda name, last: last.endswith("Trainer") and last[:1].isupper(), _trainer),
    (
        lambda name, last: last in OPTIMIZERS,
        lambda reader, function, call: _optimizer(reader, function.last, call),
    ),
    (lambda name, last: last in _WRAPS_MODEL, _same_model),
    (lambda name, last: name.startswith("torch.nn.functional."), _functional),
    (
        lambda name, last: (
            last.endswith("Loss")
            or name.startswith(("torch.nn.Linear", "torch.nn.Embedding", "torch.nn.Conv"))
        ),
        _instance,
    ),
    (lambda name, last: name.startswith(("torch.nn.", "nn.")) and last[:1].isupper(), _container),
    (lambda name, last: last in FACTORIES and name.startswith("torch."), _made_tensor),
    (lambda name, last: last in ("Accelerator", "PartialState", "AcceleratorState"), _accelerator),
    (
        lambda name, last: last.endswith(("TrainingArguments", "SFTConfig", "DPOConfig")),
        _training_arguments,
    ),
    (lambda name, last: last in ("DDPStrategy", "FSDPStrategy", "DeepSpeedStrategy"), _instance_with_options),
    (lambda name, last: last in ("HfArgumentParser", "TrlParser", "H4ArgumentParser"), _argument_parser),
    (lambda name, last: last in ("Namespace", "SimpleNamespace", "EasyDict"), _namespace),
)
"""What else is known by a part of its name; the first that applies counts."""


def _deepspeed_options(call: Call) -> Any:
    parser = call[0][0] if call[0] else call[1].get("parser")
    if isinstance(parser, Parser):
        parser.add(["--deepspeed"], {"default": False, "action": "store_true"})
        parser.add(["--deepspeed_config"], {"default": None})
    return parser if parser is not None else UNKNOWN


# Methods of what is modelled


def _method(reader: Reader, function: Bound, call: Call) -> Any:
    owner, name = function.owner, function.name
    positional, keywords, _node, _frame = call
    if isinstance(owner, Bound) and owner.name == "super":
        return reader.super_call(owner.owner[0], owner.owner[1], name, positional, keywords)
    if isinstance(owner, (dict, str, list)):
        return method(owner, name, positional, keywords)
    if isinstance(owner, Parser):
        return _parser_method(reader, owner, name, call)
    if isinstance(owner, Class):
        if name == "from_pretrained" and any(isinstance(base, External) for base in owner.lineage()):
            return loaded(reader, owner.node.name, name, call)
        return UNKNOWN
    if isinstance(owner, (Model, Instance)):
        return _object_method(reader, owner, name, call)
    if isinstance(owner, Optimizer):
        return _optimizer_method(reader, owner, name, call)
    if isinstance(owner, Tensor):
        return _tensor_method(reader, owner, name, call)
    if isinstance(owner, (Parameters, Checkpoint)):
        return owner
    return UNKNOWN


def _parser_method(reader: Reader, parser: Parser, name: str, call: Call) -> Any:
    positional, keywords, _, _ = call
    if name == "add_argument":
        parser.add(positional, keywords)
        return UNKNOWN
    if name in ("add_argument_group", "add_mutually_exclusive_group"):
        return parser
    if name == "set_defaults":
        parser.set_defaults(keywords)
        return None
    if name in ("parse_args", "parse_known_args"):
        words = (
            positional[0]
            if positional
            and isinstance(positional[0], list)
            and all(isinstance(each, str) for each in positional[0])
            else None
        )
        found = parser.parse(words if words is not None else reader.process.start.arguments)
        if reader.process.start.passes_local_rank and "local_rank" in found.attributes:
            found.attributes["local_rank"] = reader.process.local_rank
        return found if name == "parse_args" else (found, UNKNOWN)
    return UNKNOWN


def _object_method(reader: Reader, owner: Model | Instance, name: str, call: Call) -> Any:
    _positional, _keywords, _node, _frame = call
    if isinstance(owner, Instance) and isinstance(owner.kind, External):
        last = owner.kind.last
        if "kinds" in owner.attributes and name.startswith("parse_"):
            return _parsed(reader, owner, name, call)
        if last in ("Accelerator",) and name == "prepare":
            return _prepare(reader, call)
        if last in ("Accelerator",) and name in ("prepare_model",):
            return _prepare(reader, call)
        if name == "load_state_dict":
            return _resume(reader, owner, call)
        if last == "Pipeline":
            return UNKNOWN
        if name in ("from_pretrained", "get", "encode") and last in _NO_MODELS:
            return UNKNOWN
    if name in ("to", "cuda", "cpu", "xpu"):
        return _move(reader, owner, name, call)
    if name in ("parameters", "named_parameters", "state_dict"):
        return Parameters(owner)
    if name == "load_state_dict":
        return _resume(reader, owner, call)
    if name in _SAME_MODEL:
        return owner
    if name == "generate":
        return UNKNOWN
    if name == "forward":
        return _forward(reader, owner, call)
    if name == "parallelize" and isinstance(owner, Model):
        owner.placement = reader.process.placement("balanced")
        owner.wrapped = owner.wrapped or "model-parallel"
        return None
    if name in {"model", "module"}:
        return owner
    return UNKNOWN


def _parsed(reader: Reader, owner: Instance, name: str, call: Call) -> Any:
    found = parsed_dataclasses(owner.attributes["kinds"], _handed_settings(reader, name, call))
    for made in found:
        if isinstance(made, Instance) and _training(made):
            _arguments_made(reader, made, call[2], call[3])
    if owner.kind.last == "HfArgumentParser" if isinstance(owner.kind, External) else False:
        return tuple(found) if len(found) > 1 or name != "parse" else found[0]
    return tuple(found)


def _handed_settings(reader: Reader, name: str, call: Call) -> dict[str, Any] | None:
    """The options by name that a parser gets: the program's own, or what is in a file or a dictionary that it
    is handed; None where nobody can tell.
    """
    if name not in _PARSED_FILES:
        return reader.process.given()
    positional, keywords, _node, _frame = call
    handed = positional[0] if positional else keywords.get(_PARSED_FILES[name])
    if isinstance(handed, dict):
        return {str(key): value for key, value in handed.items()}
    document = reader.process.document(handed) if isinstance(handed, str) else None
    return None if document is None else document.options()


_PARSED_FILES = {"parse_json_file": "json_file", "parse_yaml_file": "yaml_file", "parse_dict": "args"}
"""Methods that take their options from what they are handed, with its name."""


def _training(made: Instance) -> bool:
    names = (
        [made.kind.last]
        if isinstance(made.kind, External)
        else [each.last for each in made.kind.lineage() if isinstance(each, External)]
    )
    return any(
        name.endswith(("TrainingArguments", "SFTConfig", "DPOConfig", "GRPOConfig", "RewardConfig"))
        for name in names
    )


def _prepare(reader: Reader, call: Call) -> Any:
    positional, _keywords, node, frame = call
    for each in positional:
        if isinstance(each, Model) or (isinstance(each, Instance) and placement_of(each).kind != "host"):
            reader.note("prepare", node, frame, model=each, placement=placement_of(each))
            if isinstance(each, Model):
                each.wrapped = "accelerate"
                if each.placement.kind == "host":
                    each.placement = Placement(
                        "device", (f"cuda:{reader.process.local_rank if reader.process.world > 1 else 0}",)
                    )
    for each in positional:
        if isinstance(each, Instance):
            reader.note("prepare", node, frame, model=each, placement=placement_of(each))
            break
    return tuple(positional) if len(positional) != 1 else positional[0]


def _move(reader: Reader, owner: Model | Instance, name: str, call: Call) -> Any:
    positional, keywords, node, frame = call
    process = reader.process
    given = positional[0] if positional else keywords.get("device")
    if name == "to" and isinstance(given, External):
        return owner  # a type
    if name == "to" and given is None:
        return owner
    bare = name == "cuda" and given is None
    target = (
        Device("cpu") if name == "cpu" else Device("cuda", process.current) if bare else process.device(given)
    )
    before = placement_of(owner)
    bare = bare or (isinstance(given, (str, Device)) and str(given) == "cuda")
    reader.note(
        "move",
        node,
        frame,
        model=owner,
        device=target,
        before=before,
        bare=bare,
        current=process.current,
        placed=process.placed_current,
    )
    after = (
        ANYWHERE if target is None else HOST if target.type == "cpu" else Placement("device", (str(target),))
    )
    if isinstance(owner, Model):
        owner.placement = after
    else:
        owner.placement, owner.moved = after, True
    return owner


def _resume(reader: Reader, owner: Any, call: Call) -> Any:
    given = call[0][0] if call[0] else call[1].get("state_dict")
    if isinstance(given, Checkpoint):
        reader.note(
            "resume", call[2], call[3], checkpoint=given, target=owner, load=given.node, load_file=given.file
        )
    return UNKNOWN


def _optimizer_method(reader: Reader, owner: Optimizer, name: str, call: Call) -> Any:
    if name == "load_state_dict":
        owner.loaded = call[2] if isinstance(call[2], ast.Call) else None
        reader.note("optimizer-load", call[2], call[3], optimizer=owner, placement=placement_of(owner.model))
        return _resume(reader, owner, call)
    if name == "step":
        owner.stepped = True
        reader.note("step", call[2], call[3], optimizer=owner)
    return UNKNOWN


def _tensor_method(reader: Reader, owner: Tensor, name: str, call: Call) -> Any:
    positional, keywords, node, frame = call
    if name in ("to", "cuda", "cpu"):
        given = positional[0] if positional else keywords.get("device")
        if name == "to" and isinstance(given, External):
            return owner
        target = (
            Device("cpu")
            if name == "cpu"
            else Device("cuda", reader.process.current)
            if given is None
            else reader.process.device(given)
        )
        if name == "cuda" and given is None:
            reader.note(
                "use",
                node,
                frame,
                device=target,
                current=reader.process.current,
                placed=reader.process.placed_current,
            )
        return Tensor(target, owner.name)
    if name in (
        "view",
        "reshape",
        "flatten",
        "float",
        "long",
        "half",
        "transpose",
        "permute",
        "contiguous",
        "clone",
        "detach",
        "squeeze",
        "unsqueeze",
        "mean",
        "sum",
    ):
        return owner
    return UNKNOWN


def _forward(reader: Reader, owner: Model | Instance, call: Call) -> Any:
    _positional, _keywords, node, frame = call
    tensors = _tensors(call)
    if isinstance(owner, Instance) and isinstance(owner.kind, External):
        last = owner.kind.last
        if last.endswith("Loss"):
            reader.meet(tensors, node, frame, "loss")
            return _like(tensors)
        placed = placement_of(owner)
        device = device_of(placed.devices[0]) if placed.kind == "device" and placed.devices else None
        if owner.kind.name.startswith("torch.nn") and device is not None:
            reader.meet([*tensors, Tensor(device)], node, frame, "weights")
            return Tensor(device)
        return _like(tensors) if owner.kind.name.startswith("torch.nn") else UNKNOWN
    return UNKNOWN


def _tensors(call: Call) -> list[Tensor]:
    return [each for each in (*call[0], *call[1].values()) if isinstance(each, Tensor)]


def _like(tensors: list[Tensor]) -> Any:
    placed = [each for each in tensors if each.device is not None]
    return Tensor(placed[0].device) if placed else UNKNOWN
