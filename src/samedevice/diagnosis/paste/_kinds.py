"""The messages that torch and its libraries raise for a wrong device, one row each.

A row's pattern may name `devices` as `d1`, `d2`, ..., the `op` and the `argument`. Every pattern begins with fixed words and holds no
nested repetition, so that a search is linear.
"""

# ruff: noqa: E501 # a message is one line, as it is printed

from __future__ import annotations

import re
from dataclasses import dataclass

from samedevice.diagnosis.paste._pattern import Pattern

_DEVICE = r"(?:cuda|cpu|meta|mps|xpu|npu|hpu|xla|musa|mlu|privateuseone)(?::\d{1,3})?"
_TYPE = r"(?:Variable\[)?[\w.:]{1,40}\]?"
_WHERE = r"(?:\s{0,3}\(when checking ar(?:gu|ug)ment (?:for argument (?P<argument>\w{1,60})\b ?)?(?:in method (?P<op>[\w:]{1,80}))?)?"


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of message."""

    name: str
    pattern: Pattern
    words: tuple[str, ...]
    """One of these, in small letters, is in each text that the pattern matches; looking for them is cheap."""
    weak: bool = False
    """True for messages that another one beside them outranks."""


def _row(name: str, words: str, pattern: str, weak: bool = False) -> Kind:
    return Kind(
        name,
        Pattern(pattern.replace("DEVICE", _DEVICE).replace("TYPE", _TYPE), re.IGNORECASE),
        tuple(words.split("|")),
        weak,
    )


KINDS: tuple[Kind, ...] = (
    _row(
        "argument-device",
        "different from other tensors",
        r"Expected all tensors to be on the same device, but got (?P<argument>\w{1,60}) is on (?P<d1>DEVICE), different from other tensors "
        r"on (?P<d2>DEVICE)(?:\s{0,3}\(when checking ar(?:gu|ug)ment in method (?P<op>[\w:]{1,80}))?",
    ),
    _row(
        "argument-device",
        "different from other tensors",
        r"(?P<argument>\w{1,60}) is on (?P<d1>DEVICE), different from other tensors on (?P<d2>DEVICE)(?:\s{0,3}\(when checking ar(?:gu|ug)ment in method (?P<op>[\w:]{1,80}))?",
        weak=True,
    ),
    _row(
        "same-device",
        "at least two devices",
        r"Expected all tensors to be on the same device, but found at least two devices, (?P<d1>DEVICE) and (?P<d2>DEVICE)\s?!?"
        + _WHERE,
    ),
    _row("same-device", "expected all tensors", r"Expected all tensors to be on the same device", weak=True),
    _row(
        "same-device",
        "at least two devices",
        r"found at least two devices, (?P<d1>DEVICE) and (?P<d2>DEVICE)\s?!?" + _WHERE,
        weak=True,
    ),
    _row(
        "same-device",
        "fake tensor|faketensor",
        r"Unhandled FakeTensor Device Propagation for (?P<op>[\w.:]{1,80}), found two different devices (?P<d1>DEVICE),? (?:and )?(?P<d2>DEVICE)",
    ),
    _row(
        "same-device",
        "backend, but got tensor",
        r"Expected tensor to have (?P<d1>CPU|CUDA) Backend, but got tensor with (?P<d2>CPU|CUDA) Backend(?: \(while checking arguments for (?P<op>\w{1,60}))?",
    ),
    _row(
        "index-device",
        "indices should be",
        r"indices should be either on (?:the )?(?:cpu|'?\w{1,8}'?) or on the same device as the indexed tensor(?: \((?P<d1>DEVICE)\))?",
    ),
    _row(
        "cat-device-old",
        "all input tensors must",
        r"torch\.cat\(\): all input tensors must be on the same device\. Received (?P<d1>DEVICE) and (?P<d2>DEVICE)",
    ),
    _row(
        "cat-device-old",
        "all input tensors must",
        r"All input tensors must be on the same device\. Received (?P<d1>DEVICE) and (?P<d2>DEVICE)",
    ),
    _row(
        "embedding-device-old",
        "input, output and",
        r"Input, output and indices must be on the current device",
    ),
    _row(
        "embedding-device-old",
        "but got device type",
        r"Expected object of device type \w{1,10} but got device type \w{1,10} for argument #?\d{1,2} '(?P<argument>index|indices)'",
    ),
    _row(
        "cat-device-old",
        "for sequence element",
        r"Expected object of (?:device type|backend) (?P<d2>CUDA|CPU|XPU|HIP) but got (?:device type |backend )?(?P<d1>CUDA|CPU|XPU|HIP) for sequence element (?P<element>\d{1,3}) in sequence argument",
    ),
    _row(
        "argument-device",
        "expected object of",
        r"Expected object of (?:device type|backend) (?P<d2>CUDA|CPU|XPU|HIP) but got (?:device type |backend )?(?P<d1>CUDA|CPU|XPU|HIP) for argument #?(?P<nth>\d{1,2}) '(?P<argument>\w{1,40})'"
        r"(?: in call to (?P<op>\w{1,60}))?",
    ),
    _row(
        "argument-device",
        "but expected them to be on|but expected it to be on",
        r"Tensor for (?:argument )?(?:#\d{1,2} )?'(?P<argument>\w{1,40})' is on (?P<d1>CPU|GPU)[^.\n]{0,160}? but expected (?:it|them) to be on (?P<d2>CPU|GPU)(?: \(while checking arguments for (?P<op>\w{1,60}))?",
    ),
    _row(
        "same-device",
        "does not equal",
        r"Expected tensor for argument #\d{1,2} '\w{1,40}' to have the same device as tensor for argument #\d{1,2} '(?P<argument>\w{1,40})'; but device (?P<g1>\d{1,3}) does not equal (?P<g2>\d{1,3})(?: \(while checking arguments for (?P<op>\w{1,60}))?",
    ),
    _row(
        "same-device",
        "different gpus|different devices",
        r"(?:arguments|tensors|parameters)[\w ]{0,40} on different (?:GPUs|devices)",
    ),
    _row(
        "gradient-device",
        "invalid gradient",
        r"Function (?P<op>\w{1,80}) returned an invalid gradient at index \d{1,3} - expected device (?P<d1>DEVICE) but got (?P<d2>DEVICE)",
    ),
    _row(
        "same-device",
        "expected device",
        r"expected device (?P<d1>DEVICE) and dtype (?P<t1>\w{1,20}) but got device (?P<d2>DEVICE) and dtype (?P<t2>\w{1,20})",
    ),
    _row(
        "same-device",
        "expected device",
        r"expected device (?P<d1>DEVICE) but got (?:device )?(?P<d2>DEVICE)",
    ),
    _row(
        "same-device",
        "checkgpu",
        r"Assertion `\w{1,40}_?\(?checkGPU\)?\([^)\n]{0,200}\)' failed",
    ),
    _row("same-device", "all tensors must be on devices[0]", r"all tensors must be on devices\[0\]"),
    _row(
        "type-combination",
        "expected object of",
        r"Expected object of (?:device type|backend|type) (?P<t1>TYPE) but (?:got|found) (?:device type |backend |type )?(?P<t2>TYPE) for argument #?\d{1,2} '(?P<argument>\w{1,40})'"
        r"(?: in call to (?P<op>\w{1,60}))?",
    ),
    _row(
        "type-combination",
        "to have the same",
        r"Expected tensor for argument #\d{1,2} '(?P<argument>\w{1,40})' to have the same (?:device|type)",
    ),
    _row(
        "type-combination",
        "tensor for argument",
        r"Tensor for argument #?\d{1,2} '(?P<argument>\w{1,40})' is on CPU",
    ),
    _row(
        "type-combination",
        "invalid combination of arguments",
        r"torch\.(?P<op>index_select|embedding) received an invalid combination of arguments - got \((?P<t1>torch\.(?:cuda\.)?\w{1,20}Tensor), int, (?P<t2>torch\.(?:cuda\.)?\w{1,20}Tensor)\)",
    ),
    _row(
        "type-combination",
        "expected a tensor of type|expected type",
        r"expected (?:a tensor of )?type (?P<t1>TYPE) but (?:got|found) (?:a )?(?:type )?(?P<t2>TYPE)(?: for sequence element \d{1,3}(?: in sequence argument at position #?\d{1,2} '(?P<argument>\w{1,40})')?)?",
    ),
    _row(
        "type-combination",
        "invalid combination of arguments",
        r"invalid combination of arguments - got \([^)]{0,200}torch\.cuda\.\w{1,20}Tensor",
    ),
    _row(
        "type-combination",
        "combination of|promotion of",
        r"(?:promotion|combination) of (?:types|devices)? ?[\w ]{0,40}not (?:allowed|supported)",
        weak=True,
    ),
    _row(
        "type-combination",
        "type combination|dtype combination",
        r"Unsupported type combination|unsupported (?:type|dtype) combination|only supports? [\w., ]{1,60}type combination",
    ),
    _row(
        "mask-device",
        "expected self and mask",
        r"expected self and mask to be on the same device, but got mask on (?P<d2>DEVICE) and self on (?P<d1>DEVICE)",
    ),
    _row(
        "mask-device",
        "must be on the same device|expected self and mask",
        r"(?:mask and self|self and mask|mask and source|self and source)[\w ]{0,30}must be on the same device|masked_fill[\w ]{0,20}: expected self and mask",
    ),
    _row(
        "input-weight-type",
        "should be the same",
        r"Input type \((?P<t1>TYPE)\) and (?P<argument>weight|bias) type \((?P<t2>TYPE)\) should be the same",
    ),
    _row(
        "input-weight-type",
        "tensors are not at the same",
        r"Input and (?P<argument>parameter|hidden) tensors are not at the same device(?:, found input tensor at (?P<d1>DEVICE) and \w+ tensor at (?P<d2>DEVICE))?",
    ),
    _row(
        "input-weight-type",
        "input type",
        r"Input type \(?(?P<t1>TYPE)\)?[ ,;]{1,3}(?:and |but )?(?:the )?(?P<argument>weight|bias) type \(?(?P<t2>TYPE)\b",
        weak=True,
    ),
    _row(
        "input-weight-type",
        "input type",
        r"(?P<argument>weight|bias) type \(?(?P<t2>TYPE)\)?[ ,;]{1,3}(?:and |but )?(?:the )?input type \(?(?P<t1>TYPE)\b",
        weak=True,
    ),
    _row("meta-copy", "out of meta tensor", r"Cannot copy out of meta tensor(?:; no data!)?"),
    _row(
        "meta-device",
        "not on the expected device",
        r"Tensor on device (?P<d1>DEVICE) is not on the expected device (?P<d2>DEVICE)",
    ),
    _row(
        "meta-value",
        "meta tensor|meta device",
        r"Tensor\.item\(\) cannot be called on meta tensors|Cannot (?:access|get) (?:data|value)[\w ]{0,30}meta tensor|is on the meta device, we need a `?value",
    ),
    _row("meta-device", "is on the meta device", r"(?P<argument>[\w.]{1,120}) is on the meta device"),
    _row(
        "generator-device",
        "device type for generator",
        r"Expected a '?(?P<d1>\w{2,8})'? device type for generator but found '?(?P<d2>\w{2,8})'?",
    ),
    _row(
        "generator-device",
        "generator device but found",
        r"Expected an? '?(?P<d1>DEVICE)'? generator device but found '?(?P<d2>DEVICE)'?",
    ),
    _row(
        "generator-device",
        "from a generator",
        r"Cannot generate a (?P<d1>\w{2,8}) tensor from a generator of type (?P<d2>\w{2,8})",
    ),
    _row(
        "data-parallel-module",
        "module must have",
        r"module must have its parameters and buffers on device (?P<d1>DEVICE)(?: ?\(device_ids\[0\]\))? ?but found one of(?: them on (?:the )?device ?: ?(?P<d2>DEVICE)|\s*$)",
    ),
    _row(
        "same-device",
        "on the original device",
        r"Calculated (?P<argument>loss) must be on the original device: (?P<d1>DEVICE)(?: but device in use is (?P<d2>DEVICE))?",
    ),
    _row(
        "module-apart",
        "module parameters locate in",
        r"input module must be on the same type of devices, but input module parameters locate in \{\W?(?P<d1>DEVICE)\W{1,5}(?P<d2>DEVICE)",
    ),
    _row(
        "module-apart",
        "broadcast function not",
        r"Broadcast function not implemented for CPU tensors",  # DataParallel, of a module that was not moved
    ),
    _row(
        "data-parallel-replica",
        "in replica",
        r"Caught (?P<argument>\w{3,40}) in replica \d{1,3} on device \d{1,3}",
        weak=True,
    ),
    _row(
        "device-map-distributed",
        "train a model",
        r"You cannot train a model that has been loaded with `?device_map",
    ),
    _row(
        "device-map-other-process-device",
        "train a model",
        r"You cannot train a model that has been loaded in \d{1,2}-bit (?:or \d{1,2}-bit )?(?:precision )?on a different device than the one you are training on",
    ),
    _row(
        "device-map-zero3",
        "deepspeed zero-3",
        r"DeepSpeed Zero-3 is not compatible with (?:`low_cpu_mem_usage=True` or with )?passing a `?device_map",
    ),
    _row(
        "device-map-incomplete", "any device set", r"(?P<argument>[\w.]{1,160}) does not have any device set"
    ),
    _row(
        "device-map-incomplete",
        "device_map provided",
        r"The device_map provided does not give any device for the following parameters?:? (?P<argument>[\w.]{1,160})?",
    ),
    _row(
        "device-map-incomplete",
        "does not contain the module",
        r"`?device_map`? does not contain the module (?P<argument>[\w.]{1,160})",
    ),
    _row(
        "device-map-class-unsupported",
        "does not support",
        r"(?P<argument>\w{1,80}) does not support `?device_map=?\W{0,3}\w{0,12}\W{0,3}`?(?: ?yet)?",
    ),
    _row(
        "device-map-class-unsupported",
        "_no_split_modules",
        r"(?P<argument>\w{1,80}) does not have (?:a |an )?(?:attribute )?\W?_no_split_modules",
    ),
    _row(
        "device-map-class-unsupported",
        "_no_split_modules",
        r"'(?P<argument>\w{1,80})' object has no attribute '_no_split_modules'",
    ),
    _row(
        "device-map-incomplete",
        "offload_folder|whole model to the disk",
        r"At least one of the model submodule will be offloaded to disk|The current `?device_map`? had weights offloaded to the disk|You are trying to offload the whole model to the disk",
    ),
    _row(
        "move-dispatched",
        "modules offloaded",
        r"You cannot move a model that has some modules offloaded to cpu or disk",
    ),
    _row(
        "move-dispatched",
        "is not supported for",
        r"(?:Calling )?`?\.?(?:to|cuda|cpu)(?:\(\))?`? is not supported for `?(?:4-bit|8-bit|\d-bit)`?",
    ),
    _row(
        "move-dispatched",
        "you have activated",
        r"It seems like you have activated (?:a device mapping strategy|sequential model offloading|model offloading)",
    ),
    _row(
        "move-dispatched-warning",
        "move a model",
        r"You should not move a model (?:that is dispatched|when it is dispatched)",
        weak=True,
    ),
    _row(
        "triton-pointer",
        "from triton",
        r"(?:Pointer argument (?:\(at (?P<argument>\d{1,3})\) )?|Tensor (?:on \w{1,8} device \d{1,3} )?)cannot be accessed from Triton(?: \(cpu tensor\?\))?",
    ),
    _row(
        "triton-pointer",
        "expected x to|expected input|expected tensor|expected all input",
        r"Expected (?:x|input|tensor|all inputs?)[\w. ]{0,20} to be (?:a |on )?cuda(?: tensor)?,? ",
        weak=True,
    ),
    _row(
        "ids-warning",
        "different than your model's device",
        r"input_ids\W{0,2} being on a device type different than your model's device",
    ),
    _row(
        "data-parallel-wrapped",
        "'dataparallel' object",
        r"'DataParallel' object has no attribute '\w{1,60}'",
    ),
    _row(
        "visible-ignored",
        "but ignoring it because",
        r"Detected CUDA_VISIBLE_\w{7}=[\d,]{1,60} but ignoring it because",
    ),
    _row(
        "launch-slots",
        "no slot",
        r"No slot '?\d{1,3}'? specified on host",
    ),
    _row(
        "too-few-gpus",
        "visible devices|visible gpus|available gpus|available devices|number of gpus|number of devices",
        r"(?:world[_ ]?size|ranks|processes|nproc\w{0,20}|\w{1,10}_parallel_size|tp_size)\b(?:(?!divisible|multiple of)[^\n]){0,100}(?:number of|visible|available) (?:visible |available )?(?:devices|GPUs)\b",
    ),
    _row("illegal-access", "illegal memory", r"illegal memory access"),
    _row("device-assert", "device-side assert", r"device-side assert triggered"),
    _row("device-assert", "assertion", r"\.cuh?:\d+: [^\n]{0,300}Assertion [`'\"][^\n]{1,160} failed"),
    _row("invalid-ordinal", "num_gpus", r"device >= 0 && device < num_gpus"),
    _row(
        "invalid-ordinal",
        "ordinal|invalid device id|device_id|cudaerrorinvaliddevice",
        r"invalid device ordinal|cudaErrorInvalidDevice\b|Invalid device id|device_id \W?\d{0,3}\W? ?(?:is )?out of range",
    ),
    _row(
        "duplicate-gpu",
        "duplicate gpu|multiple ranks detected",
        r"Duplicate GPU detected(?: ?: rank \d{1,5} and rank \d{1,5} both on CUDA device \w{1,16})?|Multiple ranks detected using the same GPU",
    ),
    _row(
        "deserialize",
        "deserialize object|restore data location",
        r"(?:Attempt(?:ing|s|ed)?|Trying) to deserialize object on (?:a )?(?:CUDA device|\w{2,8} device)"
        r"|do(?:es)? not know how to restore data location of [\w.]{1,60} \(tagged with",
    ),
    _row(
        "cuda-not-compiled",
        "not compiled with|not linked with|no nvidia|no cuda|torch._c|is not enabled",
        r"Torch not compiled with CUDA enabled|not linked with support for cuda|Found no NVIDIA driver|No CUDA GPUs are available"
        r"|module 'torch\._C' has no attribute '_cuda_\w{1,60}'|torch\.cuda\.\w{1,40} is not enabled|Device API (?:gpu|cuda) is not enabled",
    ),
    _row(
        "machine",
        "cuda error|no kernel image|cuda driver|driver on your system|cuda unknown error|cuda-capable|not compatible with the current|cudagetdevicecount|error 80|cuda-capable|ampere|on cuda devices|bf16/gpu|cuda unavailable|for torch.generator",
        r"no kernel image is available|Device (?:CUDA|type CUDA) is not supported for torch\.Generator|CUDA driver version is insufficient|driver on your system is too old|CUDA unknown error|CUDA error: (?:unknown error|all CUDA-capable devices are busy|CUDA-capable device\(s\) is/are busy|uncorrectable ECC|device kernel image is invalid|the provided PTX was compiled with an unsupported toolchain|invalid device function|peer access is not supported)"
        r"|no CUDA-capable device is detected|is not compatible with the current PyTorch installation|Error 80\d: |only supports? (?:Ampere|Turing|Volta|Hopper)|can only be used on CUDA devices|setup does not support bf16/gpu|CUDA unavailable, invalid device",
    ),
    _row(
        "backend-device",
        "backend",
        r"Could not run 'aten::\w{1,60}' with arguments from the '(?:CUDA|CPU)' backend",
    ),
    _row(
        "mps-placeholder", "placeholder storage", r"Placeholder storage has not been allocated on MPS device"
    ),
    _row(
        "collective-device",
        "no backend type associated|must be cuda and dense|list of tensors on the same|attempt to perform collective",
        r"No backend type associated with device type (?P<d1>DEVICE)|Tensors must be CUDA and dense|Expected list of tensors on the same device|"
        r"Attempt to perform collective on tensor not on device passed to init_process_group",
    ),
    _row(
        "collective-device",
        "but found tensor on",
        r"Expected (?:all_gather output )?tensor on (?P<d2>DEVICE) but found tensor on (?P<d1>DEVICE)",
    ),
    _row(
        "needs-host",
        "must be a pointer to same type",
        r"initializer for ctype \W{1,4}struct TH(?!Cuda)\w{0,12}Tensor[^\n]{0,80}not cdata \W{1,4}struct THCuda\w{0,12}Tensor",
    ),
    _row(
        "ddp-module",
        "output_device arguments only work",
        r"device_ids and output_device arguments only work with single-device[^\n]{0,200}device\(type=\W?cuda\W{1,3}index=\d+\)\W{1,4}device\(type=\W?cuda",
    ),
    _row(
        "needs-host",
        "is_cuda() internal assert",
        r"!(?P<argument>\w{1,40})\.is_cuda\(\) INTERNAL ASSERT FAILED",
    ),
    _row(
        "needs-gpu",
        "is_cuda() internal assert",
        r"(?<!!)\b(?P<argument>\w{1,40})\.is_cuda\(\) INTERNAL ASSERT FAILED",
    ),
    _row(
        "needs-gpu",
        "is_cuda() to be true",
        r"Expected (?P<argument>\w{1,40})\.(?:is_cuda\(\)|device\(\)\.is_cuda\(\)) to be true, but got false",
    ),
    _row(
        "needs-gpu",
        "not implemented on|cpu not supported",
        r"(?:Runtime|NotImplemented)Error: (?:[^\n:.]{0,80}\bnot implemented on (?:the )?CPU|[^\n]{0,200}(?<!on )(?<!the )\bCPU not supported)\b",
        weak=True,
    ),
    _row(
        "needs-gpu",
        "tensor was not cuda",
        r"A tensor was not cuda|expected (?:a )?cuda tensor, (?:but )?got cpu",
    ),
    _row(
        "graph-device",
        "to a graph on device",
        r"Cannot assign (?:node|edge) feature \W?(?P<argument>\w{1,60})\W? on device (?P<d1>DEVICE) to a graph on device (?P<d2>DEVICE)",
    ),
    _row(
        "argument-device",
        "to have device",
        r"Expect(?:ed)? (?:argument )?\W?(?P<argument>\w{1,60})\W? to have device (?P<d2>DEVICE),? but got (?P<d1>DEVICE)",
    ),
    _row(
        "optimizer-groups",
        "tensors of the same index",
        r"Tensors of the same index must be on the same device and the same dtype",
    ),
    _row(
        "same-device",
        "same device|same type of device|same gpu",
        r"(?:expected|expects|must|need|needs|should|required?)[\w ,:*()']{0,60} (?:in|on|at|have|be) (?:the )?same (?:type of )?(?:devices?|gpus?)\b",
        weak=True,
    ),
    _row(
        "pin-device",
        "can be pinned",
        r"(?:cannot pin '?(?P<t1>TYPE)'? )?only (?:dense CPU tensors|CPU memory) can be pinned",
    ),
    _row(
        "needs-gpu",
        "cuda tensor|cudatensor",
        r"(?P<argument>\w{1,60}) (?:must be|should be|is not|expected to be) (?:a |on )?CUDA ?tensor",
        weak=True,
    ),
    _row("rng-state", "rng state must be a", r"RNG state must be a torch\.ByteTensor"),
    _row("metric-device", "metric calculation", r"Encountered different devices in metric calculation"),
    _row(
        "numpy-conversion",
        "tensor to numpy",
        r"cannot convert (?:(?P<d1>DEVICE) device type|CUDA) tensor to numpy",
    ),
    _row("cublaslt", "cublaslt", r"cublasLt ran into an error"),
    _row("out-of-memory", "out of memory|outofmemory", r"CUDA out of memory|OutOfMemoryError", weak=True),
    _row(
        "no-exception",
        "no exception|no error",
        r"No (?:exception|error)(?: at \w{1,20}| is raised)?[.:,]",
        weak=True,
    ),
)
