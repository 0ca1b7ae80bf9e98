"""What the runtime saw: plain records, no torch, no judgement.

The runtime emits one `Event` for each thing that real hardware would refuse; `diagnosis` turns events into
findings. Devices are strings (`cuda:0`, `cpu`, `meta`), shapes are tuples of element counts, so an event can
be pickled, kept in a file and judged on a machine without torch.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Literal

from samedevice.messages import Phrase

WAYS_LIMIT = 64
"""So many ways to a statement are kept."""
DECISIONS_LIMIT = 4
"""So many different decisions of an operand are counted."""
EXPRESSIONS_LIMIT = 7
"""So many expressions of a statement are kept beside the one that failed first."""


def on_accelerator(device: str) -> bool:
    """Whether a device is a GPU or its kin (`cuda:0`, `npu:1`), and not the host or `meta`."""
    return device.partition(":")[0] not in ("cpu", "meta", "")


class EventKind(Enum):
    """What happened."""

    MISMATCH = "mismatch"
    """An operator got tensors on devices that its CUDA kernel refuses to mix."""
    UNMATERIALIZED = "unmaterialized"
    """An operator met a tensor on the meta device: weights that nothing ever loaded."""
    GENERATOR = "generator"
    """A random operator got a generator of another device type than its tensor."""
    UNCHECKED = "unchecked"
    """A kernel that checks nothing got tensors on several devices: wrong results or an illegal access."""
    OUT_OF_MEMORY = "out-of-memory"
    """An allocation did not fit on its device."""
    NONDETERMINISTIC_DEVICE = "nondeterministic-device"
    """A library picked a device from an unordered set: another run may pick another one."""
    DUPLICATE_GPU = "duplicate-gpu"
    """Two ranks of one process group use the same GPU: NCCL refuses to make a communicator."""
    LAUNCH_CONFLICT = "launch-conflict"
    """A library is asked for a placement that the launch forbids: a map over several GPUs in one of several
    ranks, any map under ZeRO-3.
    """
    COLLECTIVE = "collective"
    """A collective got a tensor that is not on the GPU of its process group; the operand `group` names that
    GPU.
    """
    SHARED_GPU = "shared-gpu"
    """Processes that ran at the same time needed more of one GPU than it has; each of them alone fits."""


@dataclass(frozen=True, slots=True)
class Place:
    """A line of source."""

    file: str
    line: int
    function: str
    code: str = ""
    """The statement at that line, whitespace trimmed; empty when the source is not at hand."""
    call: str = ""
    """The very expression that ran, whole even over several lines; empty when it is not known or is all of
    `code`.
    """

    def __str__(self) -> str:
        return f"{self.file}:{self.line} in {self.function}"


DecisionKind = Literal["created", "moved", "placed", "hook", "loaded", "received", "outside"]
DeviceSource = Literal[
    "literal", "default", "current-gpu", "context", "tensor", "argument", "launcher", "unordered", "computed"
]


@dataclass(frozen=True, slots=True)
class Decision:
    """One step of the answer to: why is this tensor on its device?"""

    kind: DecisionKind
    """`created`: a factory made it there. `moved`: a statement sent it there. `placed`: a module's `.to`, a
    device map or a dispatch put the parameter there. `hook`: a hook at a module's boundary sent it. `loaded`:
    it came out of a checkpoint. `received`: it came from another process. `outside`: host memory that the
    machine first met as an operand.
    """
    device: str
    at: Place | None = None
    """The innermost line outside torch and hooks where this was decided."""
    user_at: Place | None = None
    """The innermost line of the user's script, where that is another one."""
    source: DeviceSource | None = None
    """What names the device in that line: a literal; nothing (`default`, or `context` where a default device
    was set); the current GPU (`.cuda()`); the `.device` of another tensor or module; an argument of the
    function; the launcher's rank; an element of a set (`unordered`); `computed` for everything else. None
    where no line names one.
    """
    said: str | None = None
    """The expression that names the device, or the tensor from which it is taken."""
    name: str | None = None
    """Qualified name of the parameter or buffer that was placed, or of the module whose hook moved."""
    entry: str | None = None
    """The key of the device map that covers it; `""` stands for the whole model."""
    inherited: bool = False
    """True where the tensor was computed from the one that this decision put there."""
    order: int = 0
    """Which decision of the process it was: a later one has a larger number, and two steps with the same
    number are one decision. 0 where nobody counted.
    """
    without_index: bool = False
    """Whether the program said `cuda` and no number. What a tensor or a module says of itself always has one,
    so somebody wrote the word.
    """
    taken: Decision | None = None
    """Why the tensor was where it was whose `.device` was given here, whoever asked it, and when (`inherited`
    where it was computed from the one that this decision put there); None where the device is from no tensor
    that was asked.
    """
    device_at: Place | None = None
    """The line that made the device object which was given here: `torch.device("cuda:1")`."""

    @property
    def first_taken(self) -> Decision | None:
        """The decision at the end of the row of those that took their device from one another; None where
        this one took it from no tensor.
        """
        first = self.taken
        while first is not None and first.taken is not None:
            first = first.taken
        return first


@dataclass(frozen=True, slots=True)
class Placement:
    """Weights of one module that the same line put on the same device."""

    root: int
    """Which module has them: 0 is the outermost one that runs, or where none does, one in a variable."""
    kind: DecisionKind
    device: str
    at: Place | None
    count: int
    """How many parameters and buffers."""
    first: int
    """The order of the first decision among them, and below of the last one."""
    last: int
    born: int
    """The order of the latest decision that made one of them, before it was sent anywhere."""
    names: tuple[str, ...]
    """Qualified names of some of them."""


@dataclass(frozen=True, slots=True)
class Ingredient:
    """A tensor that an operand was computed from, in the frame that fails."""

    name: str
    """As the line that read it spells it: `self.mask`."""
    device: str
    made: Place | None = None
    moved: Place | None = None
    role: str | None = None
    """`parameter`, `buffer`, or None."""
    kept_by: str | None = None
    """Class of the module that keeps it as a plain attribute, which `Module.to` leaves where it is."""
    dtype: str = ""


@dataclass(frozen=True, slots=True)
class Operand:
    """One tensor argument of the operator."""

    name: str
    """Argument name in the operator's schema, with an index for list arguments: `self`, `mat2`, `tensors[1]`.
    """
    device: str
    shape: tuple[int, ...]
    dtype: str
    parameter: str | None = None
    """Qualified name when the tensor is (or shares memory with) a parameter or buffer of a module in the
    failing frames.
    """
    made: Place | None = None
    """Where its values were made; a move to another device keeps it."""
    moved: Place | None = None
    """Where it was last moved between devices."""
    role: str | None = None
    """`parameter`, `buffer`, or None."""
    tied: tuple[str, ...] = ()
    """Other qualified names of the same memory (tied weights)."""
    assumed: bool = False
    """True when the values are assumed, not computed."""
    local: str | None = None
    """How the failing frame spells the tensor: `cos`, `self.rope_deltas`."""
    argument: str | None = None
    """The parameter name by which the outermost function on the stack got it: `input_ids`, `labels`."""
    holder: str | None = None
    """The class of the cache, or the name of the past, that keeps it between steps."""
    held_by_user: bool = False
    """Whether a variable of the user's own script holds it; told on real hardware, which knows no `made` and
    no `moved`.
    """
    kept_by: str | None = None
    """Class of the module that keeps it as a plain attribute, which `Module.to` leaves where it is."""
    ingredients: tuple[Ingredient, ...] = ()
    """What it was computed from, nearest first, as far as the failing frame itself did that."""
    from_argument: str | None = None
    """The argument of the outermost running module that it is, or whose decision it inherited."""
    lineage: tuple[Decision, ...] = ()
    """Why it is on its device: the decision that put it there, then the one before it, and so on."""
    at_user: str | None = None
    """How the innermost line of the user's script spells the tensor."""
    gradient: bool = False
    """Whether it is the gradient of a parameter that the frames reach."""
    parted: str | None = None
    """The argument of a running module inside the outermost one that it is, or whose decision it inherited,
    where that module and another argument of the same call are elsewhere.
    """
    kept_within: str | None = None
    """Class of the running module that keeps it in a plain attribute, object, list or function of its own, or
    in a module that it did not register: nothing that moves the module reaches it.
    """
    hook: str | None = None
    """Of a parameter or buffer: where the hook of the module that owns it brings it for a call; None without
    such a hook.
    """

    @property
    def decision(self) -> Decision | None:
        """The decision that put it where it is, the newest; None where none is known."""
        return self.lineage[0] if self.lineage else None


@dataclass(frozen=True, slots=True)
class Running:
    """A module on the stack of a failing statement."""

    name: str
    """Qualified name below the outermost module on the stack; the class of that one."""
    kind: str
    """Its class."""
    hook: str | None
    """Where accelerate's hook on it sends inputs; None without such a hook."""
    own: tuple[str, ...]
    """Devices of the parameters and buffers that it owns directly."""
    below: tuple[str, ...]
    """Devices of all parameters below it."""
    registered: bool = True
    """False for a module that the outermost one runs and does not have among its parts: `.to()` does not
    reach it.
    """
    replica: bool = False
    """Whether `nn.DataParallel` made it for one call."""
    repeated: int = 0
    """How many modules below it stand in a list beside others of their class, as the layers of a model do."""


HandKind = Literal["device", "module", "tensor"]


@dataclass(frozen=True, slots=True)
class AtHand:
    """A name in a running function that tells a device, when a statement was refused."""

    file: str
    function: str
    line: int
    """Where the function stood: a variable has this value there, not before it was bound."""
    name: str
    """`device`, `self.model`, `args.device`."""
    kind: HandKind
    """A device itself; a module all of whose weights are on one; a tensor."""
    device: str


@dataclass(frozen=True, slots=True)
class DeviceMemory:
    """The ledger of one device, in bytes."""

    allocated: int
    reserved: int
    peak_allocated: int
    peak_reserved: int
    total: int


SilentResult = Literal["unfilled", "meta"]


@dataclass(frozen=True, slots=True)
class Event:
    """One thing that real hardware would refuse."""

    kind: EventKind
    op: str
    """As the dispatcher names it: `aten.mul.Tensor`."""
    message: str
    """The text that the exception would carry on real hardware."""
    at: Place
    """Innermost frame outside torch, accelerate's hooks and samedevice: the failing statement."""
    user_at: Place | None
    """Innermost frame of the user's own script."""
    module: str | None
    """Qualified name of the innermost module whose `forward` was running."""
    operands: tuple[Operand, ...]
    stack: tuple[Place, ...] = ()
    """Frames outside torch, oldest first, without source text."""
    memory: dict[str, DeviceMemory] = field(default_factory=dict)
    """Ledger per device at that moment; filled for out-of-memory events."""
    notes: tuple[Phrase, ...] = ()
    """Facts that do not fit elsewhere, one sentence each."""
    running: tuple[Running, ...] = ()
    """Modules on the stack, innermost first."""
    device_map: dict[str, str] = field(default_factory=dict)
    """The map by which the outermost dispatched module was placed; empty when none was."""
    versions: dict[str, str] = field(default_factory=dict)
    """Versions of the loaded libraries that matter to placement."""
    processes: int = 1
    """Processes of the launch that this one belongs to."""
    arguments: tuple[tuple[str, str], ...] = ()
    """(name, device) of each tensor that the outermost running module was called with."""
    met: tuple[tuple[str, ...], ...] = ()
    """Devices of the operands each time that the statement failed, each combination once, the first one
    first.
    """
    reached: tuple[tuple[Place, ...], ...] = ()
    """The statements outside installed packages that led to it: of each way once, the innermost one and that
    of the script. At most `WAYS_LIMIT` are kept.
    """
    read: tuple[Ingredient, ...] = ()
    """The tensors that the failing line reads by a name or an attribute."""
    placed: tuple[Place, ...] = ()
    """The lines that placed the weights of the outermost running module, each once."""
    differentiable: tuple[str, ...] = ()
    """Variables of the failing function whose tensors come out of a graph of gradients."""
    placements: tuple[Placement, ...] = ()
    """What put the weights of the modules that run, and of those in variables, where they are; empty where
    that is not known, or too long.
    """
    at_hand: tuple[AtHand, ...] = ()
    """What the functions on the stack have in their variables that tells a device, the innermost first."""
    decisions: tuple[int, ...] = ()
    """For each operand, how many decisions put it where it was over all failures of the statement; a tensor
    that fails twice with one decision outlives the statement. At most `DECISIONS_LIMIT`; empty where that is
    not known.
    """
    needed_on: str | None = None
    """The device of what the result met later on, where it was not there; None where nothing tells."""
    silent_result: SilentResult | None = None
    """What an operator that met a tensor on meta gives on real hardware where that raises nothing: memory
    that nobody filled, or a tensor on meta. None where it raises, and for other kinds.
    """
    also: tuple[Event, ...] = ()
    """The same operator in other expressions of the same statement; at most `EXPRESSIONS_LIMIT`."""


Origin = Literal[
    "argument",
    "parameter",
    "buffer",
    "attribute",
    "module",
    "layer",
    "loaded",
    "made",
    "literal",
    "like",
    "host",
    "unknown",
]
Use = Literal["angles", "sum", "state", "adapter", "codes", "index"]


@dataclass(frozen=True, slots=True)
class Written:
    """Where a name of a statement has its tensor from, as the source says."""

    name: str
    """As the statement writes it: `mask`, `self.inv_freq`."""
    origin: Origin
    """An argument of the function; a parameter, a buffer, a plain attribute or a module of its class; the
    result of such a module; out of a checkpoint; made without a device; on a device that is written; on the
    device of another tensor; from NumPy; not to be told.
    """
    text: str = ""
    """The expression that says so."""
    line: int | None = None
    device: str | None = None
    """The device that is written, or the tensor whose device it takes."""
    file: str | None = None
    """The file of that line, as the traceback writes it; None where nothing is told."""
    use: Use | None = None
    """What the class does with a plain attribute: makes cosine and sine of it, adds to it, writes into it;
    what a parameter or a buffer is: weights beside a layer that the class was handed, or numbers of eight
    bits; and what indexes another tensor.
    """
    calls: int = 0
    """How many calls out from the failing function that line stands."""
    owner: str | None = None
    """The class in whose method that line stands."""
    position: int | None = None
    """Which argument of the outermost module that was called it is, counted from 0; None where none was."""


@dataclass(frozen=True, slots=True)
class InVain:
    """What an optimizer does in vain."""

    optimizer: str
    """Its class."""
    at: Place
    """Where it steps, or where the copy was made."""
    copy: str | None = None
    """The variable with the copy that it does not change; None for an optimizer that changes nothing."""
    device: str | None = None
    """Of the copy."""
