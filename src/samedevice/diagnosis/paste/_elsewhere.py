"""Errors that are about something else than devices: one row for each wording, with what it is about.

A row says what an error is about because its whole sentence says so; a word alone never does. The amounts of
an error about memory are read with it.
"""

# ruff: noqa: E501 # a message is one line, as it is printed

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from samedevice.diagnosis.paste._pattern import Pattern

_SHAPE = r"torch\.Size\(\[[\d, ]{0,80}\]\)"
_AMOUNT = r"[\d.]{1,12} ?(?:[KMGT]i?B|bytes)"
_UNITS = {"k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """One wording."""

    topic: str
    pattern: Pattern
    words: tuple[str, ...]
    """One of these, in small letters, is in each text that the pattern matches."""


def _row(topic: str, words: str, pattern: str) -> Elsewhere:
    whole = pattern.replace("SHAPE", _SHAPE).replace("AMOUNT", _AMOUNT)
    return Elsewhere(topic, Pattern(whole, re.IGNORECASE), tuple(words.split("|")))


ROWS: tuple[Elsewhere, ...] = (
    _row(
        "shape",
        "cannot be multiplied",
        r"mat1 and mat2 shapes cannot be multiplied(?: \(\d+x\d+ and \d+x\d+\))?",
    ),
    _row(
        "shape",
        "must match the existing size|must match the size of tensor",
        r"The (?:expanded )?size of (?:the )?tensor(?: a)? \(\d+\) must match the (?:existing )?size(?: of tensor b)? \(\d+\) at non-singleton dimension \d",
    ),
    _row(
        "shape",
        "expected input[",
        r"Given groups=\d+, weight of size \[[\d, ]+\], expected input\[[\d, ]+\] to have \d+ channels, but got \d+",
    ),
    _row(
        "shape",
        "more than 1 value per channel|non-empty|no tensor arguments|-dimensional|view size is not|negative dimension|kernel size cannot",
        r"Expected more than 1 value per channel|expect(?:ed|s) a non-empty (?:list of Tensors|TensorList)|There were no tensor arguments to this function"
        r"|Expected \d(?:D or \d|-dimensional|D)\D[^\n]{0,120}but got|view size is not compatible with input tensor|create tensor with negative dimension|Kernel size cannot be greater than actual input size",
    ),
    _row("shape", "equal size", r"stack expects each tensor to be equal size"),
    _row(
        "shape",
        "must be the same as|must match target size|different to the input size",
        r"(?:Target|Input) size \(SHAPE\) must be the same as (?:input|target) size|Using a target size \(SHAPE\) that is different to the input size",
    ),
    _row("shape", "expected sequence of length", r"expected sequence of length \d+ at dim \d+ \(got \d+\)"),
    _row("shape", "is invalid for input of size", r"shape '\[[-\d, ]+\]' is invalid for input of size \d+"),
    _row("shape", "must match except in dimension", r"Sizes of tensors must match except in dimension \d"),
    _row(
        "shape",
        "same number of dimensions|dimension out of range|dimension specified as",
        r"Tensors must have same number of dimensions|Dimension out of range \(expected to be in range",
    ),
    _row("shape", "batch_size", r"Expected input batch_size \(\d+\) to match target batch_size \(\d+\)"),
    _row(
        "shape",
        "shape mismatch|unable to create tensor|inhomogeneous shape",
        r"shape mismatch: (?:value|indexing|objects)|shape mismatches \(expected [\w, ]+ vs|Unable to create tensor, you should probably activate truncation|inhomogeneous shape",
    ),
    _row(
        "shape",
        "expected size for first two|batch1 tensor|batch2 tensor",
        r"Expected size for first two dimensions of batch2 tensor to be",
    ),
    _row("shape", "image features and image tokens", r"Image features and image tokens do not match"),
    _row(
        "dtype",
        "to have the same dtype|must have the same dtype",
        r"(?:expected )?(?:mat1 and mat2|m1 and m2|query, key, and value|self and \w+|tensors?)\b[\w ,]{0,20}(?:to|must) have the same dtype",
    ),
    _row(
        "dtype",
        "scalar type",
        r"expected (?:m1 and m2 to have the same dtype|scalar type \w+ but found \w+)|Found dtype \w+ but expected \w+|Expected object of scalar type \w+ but got scalar type",
    ),
    _row(
        "shape", "invalid configuration argument", r"CUDA error: invalid configuration argument"
    ),  # a size of 0
    _row("dtype", "scalar types", r"to have one of the following scalar types: [\w, ]+; but got"),
    _row("dtype", "dtypes match", r"requires the source and destination dtypes match"),
    _row("dtype", "not implemented for", r"\"\w+\" not implemented for '\w+'"),
    _row(
        "dtype",
        "with dtype|cannot be cast|result type",
        r"result type \w+ cannot be cast to the desired output type|only Tensors of floating point",
    ),
    _row(
        "dtype",
        "must match inference dtype|attn_bias|query dtype",
        r"attn_mask dtype|Expected (?:attn_mask|query, key, and value) dtype|(?:query|key|value)\.dtype",
    ),
    _row("state-dict", "loading state_dict", r"Error\(s\) in loading state_dict for"),
    _row(
        "state-dict",
        "in state_dict",
        r"(?:Missing|Unexpected) key(?:\(s\)|s? ['\"][^\n]{1,80}['\"]) in state_dict",
    ),
    _row("state-dict", "size mismatch for", r"size mismatch for [\w.]+: copying a param with shape"),
    _row(
        "out-of-memory",
        "out of memory|outofmemory",
        r"CUDA out of memory|\(\): out of memory|CUDA error: out of memory|OutOfMemoryError|hip out of memory|MPS backend out of memory",
    ),
    _row(
        "out-of-memory",
        "runtime error (2)|cudnn algorithm|alloc_failed|executable batch size",
        r"cuda runtime error \(2\)|Unable to find a valid cuDNN algorithm|CUBLAS_STATUS_ALLOC_FAILED|CUDNN_STATUS_ALLOC_FAILED|No executable batch size found",
    ),
    _row(
        "out-of-memory",
        "dispatched on the cpu or the disk",
        r"Some modules are dispatched on the CPU or the disk",  # an automatic map found no more room
    ),
    _row(
        "out-of-memory",
        "allocate memory",
        r"DefaultCPUAllocator: (?:cannot allocate memory|not enough memory)|Cannot allocate memory|Unable to allocate AMOUNT for an array",
    ),
    _row(
        "out-of-memory",
        "memory for the cache blocks|free memory on device",
        r"No available memory for the cache blocks|Free memory on device (?:\w{1,10}(?::\d{1,3})? )?\(?[\d./ GiBMTK]+\)? on startup is less than|KV cache is needed, which is larger than",
    ),
    _row(
        "collective-timeout",
        "watchdog caught|failed or timed out",
        r"Watchdog caught collective operation timeout|Some NCCL operations have failed or timed out",
    ),
    _row(
        "collective-timeout",
        "waiting for clients|waiting for ",
        r"Timed out after \d+ seconds waiting for clients|DistStoreError: Timed out|wait timeout after \d+ms|Socket Timeout",
    ),
    _row(
        "collective-timeout",
        "timed out waiting",
        r"\[\d+\] is setting up NCCL communicator[^.]{0,200}timed? ?out|Timed out waiting \d+ms for (?:recv|send) operation",
    ),
    _row(
        "collective-failure",
        "nccl error|nccl communicator|ncclsystemerror|ncclinternalerror|ncclremoteerror",
        r"ncclSystemError|ncclInternalError|ncclRemoteError|ncclUnhandledCudaError|unhandled (?:system|cuda) error|NCCL communicator was aborted",
    ),
    _row(
        "collective-failure",
        "finished reduction",
        r"Expected to have finished reduction in the prior iteration",
    ),
    _row(
        "collective-failure",
        "connection closed by peer|connection reset",
        r"Connection closed by peer|Connection reset by peer",
    ),
    _row("collective-failure", "default process group", r"Default process group has not been initialized"),
    _row("launcher-exit", "childfailederror", r"ChildFailedError"),
    _row("launcher-exit", "exitcode", r"failed \(exitcode: -?\d+\)"),
    _row(
        "launcher-exit",
        "non-zero exit status|died with",
        r"Command '[^\n]{0,2000}' (?:returned non-zero exit status -?\d+|died with <Signals)",
    ),
    _row("launcher-exit", "exits with return code|sigkill_handler", r"exits with return code = -?\d+"),
    _row(
        "launcher-exit",
        "killed by signal|terminated with|exited unexpectedly",
        r"DataLoader worker \(pid[^)]{0,60}\) (?:is killed by signal|exited unexpectedly)|ProcessExitedException|process \d+ terminated with",
    ),
    _row(
        "process",
        "segmentation fault|core dumped|shared memory|ancdata|too many open files|bus error",
        r"Segmentation fault|\(core dumped\)|unable to (?:open|write to) (?:shared memory|file <?/torch)|received 0 items of ancdata|Too many open files|insufficient shared memory",
    ),
    _row("autograd", "backward through the graph", r"Trying to backward through the graph a second time"),
    _row(
        "autograd",
        "leaf variable",
        r"a (?:view of a )?leaf Variable that requires grad is being used in an in-place operation",
    ),
    _row("autograd", "does not require grad", r"element \d+ of tensors does not require grad"),
    _row(
        "autograd",
        "inplace operation",
        r"one of the variables needed for gradient computation has been modified by an inplace operation",
    ),
    _row("autograd", "requires grad", r"Cannot call numpy\(\) on Tensor that requires grad"),
    _row("autograd", "created for outputs", r"grad can be implicitly created only for scalar outputs"),
    _row(
        "index",
        "index out of range",
        r"index out of range in self|(?:list|tuple|string) index out of range|index \d+ is out of bounds for (?:dimension|axis) \d+ with size",
    ),
    _row(
        "import",
        "no module named|cannot import name|undefined symbol|seems to be not installed|failed building wheel|requires |has been toggled on",
        r"No module named '?[\w.]+|cannot import name '\w+'|undefined symbol: \w+|the package \w+ seems to be not installed|Failed building wheel|This modeling file requires the following packages|requires `?\w+`?\. You can install it with|requires (?:the )?`?\w+`?(?: library| package)? to be installed",
    ),
    _row(
        "import",
        "for device cuda|not compiled with gpu support|does not have nccl|no gpus found|cuda_home|detected cuda version|cuda setup failed|with arguments from the|torch_cuda_arch_list",
        r"Not compiled with GPU support|\w+_impl: implementation for device cuda(?::\d+)? not found|Distributed package does not have \w+ built in|ProcessGroupNCCL is only supported with GPUs|CUDA_HOME environment variable is not set|The detected CUDA version \([^)]{0,20}\) mismatches|CUDA Setup failed"
        r"|Could not run '(?!aten::)\w+::\w+' with arguments from the",
    ),
    _row(
        "import",
        "dll load failed|cannot open shared object|torchvision::",
        r"DLL load failed[^\n]{0,80}|(?:[\w.+-]{1,60}: )?cannot open shared object file|operator torchvision::\w+ does not exist",
    ),
    _row(
        "network",
        "max retries exceeded|connectionerror|could not connect|offline",
        r"Max retries exceeded with url|Could not connect to '?https?:|LocalEntryNotFoundError|Read timed out|403 Client Error|401 Client Error|404 Client Error",
    ),
    _row(
        "network",
        "address already in use|server socket",
        r"Address already in use|The server socket has failed to listen",
    ),
    _row(
        "files",
        "invalid load key|does not appear to have a file|no file named|no such file|headertoolarge|deserializing header|not a valid json",
        r"does not appear to have a file named|no file named \w|No such file or directory|Error while deserializing header|HeaderTooLarge|PytorchStreamReader failed|invalid load key",
    ),
    _row("files", "no space left", r"No space left on device"),
    _row("files", "os error", r"\w[\w ]{2,60} \(os error \d{1,3}\)"),
    _row(
        "process",
        "have died|has died|kernel restarting",
        r"kernel\b[^\n]{0,60}(?:appears to have|has) died|Kernel Restarting",
    ),
    _row("process", "in forked subprocess", r"Cannot re-initialize CUDA in forked subprocess"),
    _row(
        "process", "pickle", r"Cannot (?:get|pickle) (?:local object|attribute)|cannot pickle '[\w.]+' object"
    ),
    _row(
        "agreement",
        "result|output|value|loss",
        r"\b(?:results?|outputs?|values?|loss(?:es)?)\b[^\n]{0,60}\b(?:CPU (?:and|vs\.?|versus) (?:CUDA|GPU)|(?:CUDA|GPU) (?:and|vs\.?|versus) CPU)\b[^.\n]{0,30}\b(?:differ\w*|inconsisten\w+|do not match|not the same)|\b(?:different|inconsistent) (?:results?|outputs?|values?|loss(?:es)?) (?:on|for|between|with|in) (?:the )?(?:CPU (?:and|vs\.?) (?:CUDA|GPU)|(?:CUDA|GPU) (?:and|vs\.?) CPU)\b",
    ),
    _row("numbers", "contains either", r"probability tensor contains either `?inf`?, `?nan`? or element < 0"),
    _row(
        "python",
        "unexpected keyword argument|positional argument|missing 1 required",
        r"got (?:an unexpected keyword argument|multiple values for (?:keyword )?argument)|takes \d+ positional arguments? but|missing \d+ required (?:keyword-only |positional )?arguments?",
    ),
    _row("python", "object has no attribute", r"'\w+' object has no attribute '(?!_no_split_modules)\w+'"),
    _row(
        "python",
        "unrecognized arguments|arguments are required|invalid choice|usage:",
        r"error: (?:unrecognized arguments|the following arguments are required|argument \S+: invalid)|\busage: \S+ (?:\S+ )?\[-h\]",
    ),
    _row("python", "padding token", r"Asking to pad but the tokenizer does not have a padding token"),
    _row(
        "python",
        "is ambiguous",
        r"Boolean value of Tensor with more than one value is ambiguous|truth value of an array with more than one element is ambiguous",
    ),
)


@dataclass(frozen=True, slots=True)
class Memory:
    """The amounts that an error about memory names, in bytes."""

    device: str | None = None
    amounts: Mapping[str, int] = field(default_factory=dict)
    """`asked`, `total`, `free`, `allocated`, `reserved`, `in_use` (by this process), `others` (by others)."""


_AMOUNTS = {
    "asked": r"Tried to allocate (?P<a>AMOUNT)|tried to allocate (?P<b>AMOUNT)",
    "total": r"total capac(?:i)?ty of (?P<a>AMOUNT)|(?P<b>AMOUNT) total capacity",
    "free": r"of which (?P<a>AMOUNT) is free|(?P<b>AMOUNT) free",
    "allocated": r"(?P<a>AMOUNT) is allocated by PyTorch|(?P<b>AMOUNT) already allocated",
    "reserved": r"(?P<a>AMOUNT) is reserved by PyTorch but unallocated",
    "held": r"(?P<a>AMOUNT) reserved in total|(?P<b>AMOUNT) cached",
    "in_use": r"this process has (?P<a>AMOUNT) memory in use",
    "others": r"Process \d+ has (?P<a>AMOUNT) memory in use",
}
_READ = {
    name: Pattern(pattern.replace("AMOUNT", _AMOUNT), re.IGNORECASE) for name, pattern in _AMOUNTS.items()
}
_GPU = Pattern(r"\bGPU (\d{1,3})\b")


def memory_in(text: str) -> Memory:
    """The amounts in the sentences of one error."""
    amounts = {}
    for name, pattern in _READ.items():
        if found := pattern.search(text):
            amounts[name] = _bytes(next(group for group in found.groups() if group))
    own = amounts.get("allocated", 0) + amounts.get("reserved", 0)
    if "in_use" not in amounts and own <= amounts.get("others", 0) < own * 5 // 4:
        amounts["in_use"] = amounts.pop("others")  # torch names this process by its number as well
    gpu = _GPU.search(text)
    return Memory(f"cuda:{gpu[1]}" if gpu else None, amounts)


def _bytes(text: str) -> int:
    number, _, unit = re.sub(r"(?<=[\d.])(?=[A-Za-z])", " ", text).partition(" ")
    try:
        return round(float(number) * _UNITS.get(unit[:1].lower(), 1))
    except ValueError:
        return 0
