"""An event as detectors look at it: short questions about operands, lines and modules."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from samedevice.device_rules import on_host
from samedevice.events import Decision, Event, EventKind, Operand, Place, Placement, Running, on_accelerator
from samedevice.messages import short_operator
from samedevice.provenance.dispatch import mapped
from samedevice.provenance.flow import CHOSEN, Flow, Root, called_in_file, calls_in_function
from samedevice.provenance.named_devices import (
    WRITES_ANEW,
    given_once,
    moves_others,
    reads_a_size,
    takes_arguments,
    writes_gpu,
)
from samedevice.provenance.syntax import functions_called, methods_called, names_of, parsed

FACTORY = re.compile(
    r"\b(?:torch|np|numpy|self)\.(?:arange|zeros|ones|full|empty|tensor|as_tensor|asarray|from_numpy|linspace|eye|rand|randn|randint|range|"
    r"(?:Long|Float|Bool|Int|Byte|Half)?Tensor|triu|tril|logspace|stack)\b|\.new_(?:zeros|ones|full|empty|tensor)\b|\b(?:Long|Float|Bool)Tensor\("
)
"""Calls that make a tensor from nothing, or from Python values."""

_LISTS_WEIGHTS = re.compile(r"\.(?:(?:named_)?(?:parameters|buffers)|state_dict)\(")
_FUNCTIONAL = ("F", "functional", "nn.functional", "torch.nn.functional")
_LOSSES = re.compile(
    r"(?:\w*_)?loss|cross_entropy\w*|binary_cross_entropy\w*|kl_div|smooth_l1\w*|ctc\w*|huber\w*"
)
"""Operators and functions of torch.nn.functional that compute a loss."""
_LOSS_CALLS = frozenset(("cross_entropy", "nll_loss", "binary_cross_entropy", "kl_div", "mse_loss"))
_DIFFERENTIATED = frozenset(("backward", "grad"))
_COUNTS = frozenset(
    "add sub maximum minimum fmax fmin logical_or logical_and scatter_add scatter_reduce index_add".split()
)
"""Operators that count something into a statistic."""


def _line(place: Place | None) -> tuple[str, int, str] | None:
    return None if place is None else (place.file, place.line, place.function)


def _both_in_constructors(one: Place | None, other: Place | None) -> bool:
    return all(each is not None and each.function == "__init__" for each in (one, other))


def largest_first(operands: Sequence[Operand]) -> list[Operand]:
    """A matrix before its bias: people know a layer by it."""
    return sorted(operands, key=lambda each: -len(each.shape))


def _by_default(decision: Decision) -> bool:
    """Whether nothing named its device, or the host was written down."""
    return decision.source in ("default", "context") or (decision.source, decision.device) == (
        "literal",
        "cpu",
    )


def _may_have(module: Placement, weight: Decision) -> bool:
    """Whether a module may be the one by which a weight has its name: another one holds a part of it."""
    complete = len(module.names) == module.count
    return not complete or weight.name is None or weight.name in module.names


def _alike(one: Decision | Placement, other: Decision) -> bool:
    """Whether one line put two things on the same device in the same way."""
    return (one.kind, one.device, one.at) == (other.kind, other.device, other.at)


@dataclass(frozen=True)
class Failure:
    """An event with what detectors ask of it."""

    event: Event
    launched: bool = False
    """Whether it was seen on a rank of a launch, where each process has a GPU of its own."""

    @cached_property
    def op(self) -> str:
        """The operator as people call it."""
        return short_operator(self.event.op)

    @cached_property
    def looks_up(self) -> bool:
        """Whether rows of a table are read by ids."""
        return self.op.lstrip("_").startswith("embedding")

    @cached_property
    def mismatch(self) -> bool:
        """Whether operands met on several devices."""
        return self.event.kind in (EventKind.MISMATCH, EventKind.UNCHECKED)

    @cached_property
    def read_on_host(self) -> tuple[Operand, ...]:
        """The operands on a GPU that the operator reads on the host."""
        names = on_host(self.event.op) if self.mismatch else frozenset()
        return tuple(
            each for each in self.event.operands if each.name in names and on_accelerator(each.device)
        )

    @cached_property
    def group(self) -> Operand | None:
        """Of a collective with a tensor that is not where its process group works: the group, on its GPU."""
        last = self.event.operands[-1] if self.event.operands else None
        return last if last is not None and last.name == "group" and not last.dtype else None

    @cached_property
    def off_its_gpu(self) -> tuple[Operand, ...]:
        """The tensors of a collective that are not on the GPU of its process group."""
        group = self.group
        return (
            ()
            if group is None
            else tuple(each for each in self.event.operands if each.device != group.device)
        )

    @cached_property
    def code(self) -> str:
        """The failing statement."""
        at = self.event.at
        return f"{at.code}\n{at.call}"

    @cached_property
    def flow(self) -> Flow:
        """Where the values of the failing statement come from, and where its result goes."""
        return Flow(tuple(reversed(self.event.stack)) or (self.event.at,))

    @cached_property
    def computes_loss(self) -> bool:
        """Whether a loss of torch fails: the operator, the called function, or the only running module."""
        kind = self.event.running[0].kind if self.event.running else ""
        if any(each.below for each in self.event.running):
            return bool(_LOSSES.match(self.op)) or self.called in _LOSS_CALLS
        return (
            bool(_LOSSES.match(self.op))
            or bool(self.called and _LOSSES.fullmatch(self.called))
            or (kind.endswith("Loss") and len(self.event.running) == 1)
        )

    @cached_property
    def loss_of_torch(self) -> bool:
        """Whether the operator, or the function that is called, is a loss of torch itself."""
        return bool(_LOSSES.match(self.op)) or bool(self.called and _LOSSES.fullmatch(self.called))

    @cached_property
    def returns_loss(self) -> bool:
        """Whether the failing function gives back what a loss of torch computes."""
        called = self.flow.returned_calls()
        return any(_LOSSES.fullmatch(name) or name in _LOSS_CALLS for name in called)

    @cached_property
    def called(self) -> str | None:
        """The function of torch.nn.functional that the failing expression is a call of."""
        for text in (self.event.at.call, self.event.at.code, self.event.at.code.partition("=")[2]):
            match parsed(text):
                case ast.Module(body=[ast.Expr(value=ast.Call(func=ast.Attribute(value=of, attr=name)))]):
                    return name if ast.unparse(of) in _FUNCTIONAL else None
                case ast.Module():
                    return None
        return None

    @cached_property
    def where(self) -> str:
        """`file:function` of the failing statement, with forward slashes."""
        return place_text(self.event.at)

    @cached_property
    def hosted(self) -> bool:
        """Whether one operand is on the host."""
        return any(operand.device == "cpu" for operand in self.event.operands)

    @cached_property
    def two_gpus(self) -> bool:
        """Whether all operands are on GPUs, and on several."""
        devices = {operand.device for operand in self.event.operands}
        return len(devices) > 1 and all(on_accelerator(device) for device in devices)

    @cached_property
    def weights(self) -> tuple[Operand, ...]:
        """Operands that are parameters or buffers."""
        return tuple(operand for operand in self.event.operands if operand.role)

    @cached_property
    def plain(self) -> tuple[Operand, ...]:
        """Operands that are neither."""
        return tuple(operand for operand in self.event.operands if not operand.role)

    @cached_property
    def plain_state(self) -> tuple[Operand, ...]:
        """Operands that an object keeps between calls, and that are no parameters."""
        return tuple(
            operand
            for operand in self.event.operands
            if operand.role == "buffer"
            or (operand.role is None and (operand.kept_by or (operand.local or "").startswith("self.")))
        )

    @cached_property
    def dispatched(self) -> bool:
        """Whether the model was placed by a map or has hooks."""
        return bool(self.event.device_map) or any(each.hook for each in self.event.running)

    @cached_property
    def left_out(self) -> tuple[str, str] | None:
        """The running part of the model that has buffers alone and that no entry of the map reaches, though
        modules beside it have theirs, and where the first of these is. Without an entry no hook brings its
        arguments together.
        """
        if len(self.event.running) < 2 or self.entry is None:
            return None
        inner = self.event.running[0]
        if inner.hook is not None or inner.below or not (inner.own and inner.registered):
            return None
        name, around = inner.name, self.event.running[1].name
        whole = len(self.event.running) == 2
        beside = [key for key in self.event.device_map if whole or key.startswith(f"{around}.")]
        reached = self.mapped(name) is not None or any(each.startswith(f"{name}.") for each in beside)
        return (name, self.event.device_map[beside[0]]) if beside and not reached else None

    @cached_property
    def home(self) -> str | None:
        """Where the innermost running module lives.

        Its hook's device, or that of its parameters when they have one.
        """
        for each in self.event.running:
            if each.hook:
                return each.hook
            devices = {*each.own, *each.below}
            if devices:
                return devices.pop() if len(devices) == 1 else None
        return None

    @cached_property
    def cut(self) -> Running | None:
        """The innermost running module whose weights are on several devices; of a model that a map spreads
        none that is the model itself: it cannot be kept whole.
        """
        found = next((each for each in self.event.running if len(each.below) > 1), None)
        return None if found is None or (self.dispatched and self._is_the_model(found)) else found

    def _is_the_model(self, module: Running) -> bool:
        """Whether it is the outermost module, or has all the layers of that one and is none itself."""
        outermost = self.event.running[-1]
        has_all = 0 < outermost.repeated == module.repeated
        return module is outermost or (has_all and not _is_numbered(module))

    def directly_owned(self, operand: Operand) -> bool:
        """Whether the operand is, or was computed from, a weight that the innermost running module owns
        itself, and no layer of it; its parts are on several devices.
        """
        here = self.event.running[0] if self.event.running else None
        newest = operand.decision
        placed = newest.name if newest is not None and newest.kind == "placed" else None
        name = (operand.parameter if operand.role else placed) or ""
        owner, _, last = name.rpartition(".")
        of_it = here is not None and len(here.below) > 1 and (not owner or owner in (here.name, here.kind))
        return of_it and bool(name) and last not in ("weight", "bias")

    @cached_property
    def cut_here(self) -> bool:
        """Whether a map cuts the innermost running module, whose parts meet in its own code."""
        return self.dispatched and self.cut is not None and self.cut is self.event.running[0]

    def of_cut(self, operand: Operand) -> bool:
        """Whether a part of the innermost running module, which a map cuts, computed it."""
        newest = operand.decision
        if self.cut is None or newest is None or not self.cut_here:
            return False
        return (newest.name or "").startswith(f"{self.cut.name}.")

    @cached_property
    def block(self) -> Running | None:
        """The block to keep whole: the cut module, or the layer of a list that it is a part of."""
        if self.cut is None:
            return None
        around = self.event.running[self.event.running.index(self.cut) :]
        return next((each for each in around if _is_numbered(each)), self.cut)

    @cached_property
    def entry(self) -> str | None:
        """Where the hook of the outermost module sends every input of the model; None without such a hook."""
        return self.event.running[-1].hook if self.event.running else None

    def by_user(self, place: Place | None) -> bool:
        """Whether a line belongs to the user's own script."""
        return place is not None and self.event.user_at is not None and place.file == self.event.user_at.file

    @cached_property
    def in_model(self) -> bool:
        """Whether a module with weights runs."""
        return any(each.below or each.own for each in self.event.running)

    def given(self, operand: Operand) -> str | None:
        """The argument of the outermost module that the operand is, or on whose device it was made."""
        if operand.from_argument is not None:
            return operand.from_argument
        if operand.argument in {name for name, _ in self.event.arguments}:
            return operand.argument
        newest = operand.decision
        if newest is None or newest.source != "tensor" or newest.kind not in ("created", "moved"):
            return None
        there = [name for name, device in self.event.arguments if device == operand.device]
        return there[0] if len(there) == 1 else None

    def at_home(self, operand: Operand) -> bool:
        """Whether all weights of the outermost running module are on the operand's device: then it is not the
        operand that is in the wrong place.
        """
        model = self.event.running[-1] if self.event.running else None
        return model is not None and model.below == (operand.device,)

    def with_its_modules(self, operand: Operand) -> bool:
        """Whether an object keeps a tensor where all modules are that it keeps: that one is in its place."""
        name = self.written(operand)
        owner = name.rpartition(".")[0]
        if not owner or self.event.at is None:
            return False
        here = [
            each
            for each in self.event.at_hand
            if each.function == self.event.at.function and each.file == self.event.at.file
        ]
        modules = {
            each.device for each in here if each.kind == "module" and each.name.rpartition(".")[0] == owner
        }
        return modules == {operand.device}

    @cached_property
    def placements(self) -> tuple[Placement, ...]:
        """What placed the weights of the outermost running module on GPUs."""
        return tuple(
            each
            for each in self.event.placements
            if each.root == 0 and each.kind in ("placed", "moved") and on_accelerator(each.device)
        )

    @cached_property
    def _main_placement(self) -> Placement | None:
        """What placed most of its weights."""
        return max(self.placements, key=lambda each: each.count, default=None)

    def added_later(self, operand: Operand) -> bool:
        """Whether a weight was made for a module that had been built and placed before, and that
        no statement placed since.
        """
        newest = operand.decision
        if newest is None or newest.kind not in ("created", "loaded") or newest.name is None:
            return False
        if self.made_by_the_model(operand):
            return False
        main = self._main_placement
        if main is None or main.born > main.first or newest.order < main.last:
            return False
        return not _both_in_constructors(newest.at, main.at)

    def joined_later(self, weight: Operand) -> bool:
        """Whether a weight was made, and placed by a statement of its own, when most of the model had been
        placed: what a script puts into a model that it dispatched.
        """
        main = self._main_placement
        newest, *_, first = (*weight.lineage, *weight.lineage[-1:]) or (None, None)
        if main is None or newest is None or first is None or newest.kind != "placed":
            return False
        if self._root(weight) != 0 or _both_in_constructors(newest.at, main.at):
            return False
        return first.kind in ("created", "loaded") and first.order > main.last and newest.entry is None

    def made_after_other_models(self, weight: Operand) -> bool:
        """Whether a factory made a weight on a GPU, for a module of its own, when all other models known
        had been placed, one of them also there, and nothing placed that module since.
        """
        newest, own = weight.decision, [each for each in self.event.placements if each.root == 0]
        others = [each for each in self.event.placements if each.root != 0]
        if newest is None or newest.kind != "created" or not on_accelerator(weight.device) or not own:
            return False
        made = all(each.kind == "created" and each.device == weight.device for each in own)
        there = any(each.device == weight.device for each in others)
        return made and there and all(each.last < newest.order for each in others)

    def sent_out_of_the_model(self, operand: Operand) -> bool:
        """Whether a function of the running model sent it to a device where the model has no weight: nothing
        of the model is cut, all of it is elsewhere than its own code says.
        """
        newest, model = operand.decision, self.event.running[-1] if self.event.running else None
        if newest is None or newest.kind != "moved" or newest.at is None or model is None or self.dispatched:
            return False
        homes = {*model.own, *model.below}
        whole = len(homes) == 1 and operand.device not in homes
        return whole and newest.at.function == "forward" and self.runs(newest.at)

    def runs(self, place: Place) -> bool:
        """Whether the function of a place is on the stack."""
        return any((each.file, each.function) == (place.file, place.function) for each in self.event.stack)

    def made_by_the_model(self, weight: Operand) -> bool:
        """Whether a function of the model that runs, or one that such a function calls, made a weight: of a
        layer that the model has since it was first called, and that nobody attached to it.
        """
        made = None if weight.decision is None else weight.decision.at
        depths = [n for n, place in enumerate(self.event.stack) if place.function == "forward"]
        inside = self.event.stack[depths[0] :] if depths and made is not None else ()
        return made is not None and any(
            each.file == made.file
            and (each.function == made.function or made.function in calls_in_function(each))
            for each in inside
        )

    @cached_property
    def adds_to_a_layer(self) -> bool:
        """Whether what the failing statement computes is added to something, or joined with it."""
        return self.flow.adds()

    def of_before(self, operand: Operand) -> bool:
        """Whether layers computed it where no weight of the model is any more: the model moved since."""
        newest, known = operand.decision, self.event.placements
        now = any(newest is not None and each.device == newest.device for each in known)
        return bool(known) and not now and self.left_by_move(operand)

    def taken_by_a_layer(self, operand: Operand) -> bool:
        """Whether the model has layers on the operand's GPU, and what it meets was computed from it alone.

        Hooks take inputs to layers wherever these are, and say nothing of an input.
        """
        if self.dispatched:
            return False
        model = self.event.running[-1] if self.event.running else None
        if model is None or operand.device not in model.below or not on_accelerator(operand.device):
            return False
        others = [each for each in self.event.operands if each.device != operand.device]
        own = self._inputs(operand)
        return bool(own) and any(self.activation(each) and self._inputs(each) == own for each in others)

    def only_read(self, weight: Operand) -> bool:
        """Whether the innermost running module holds the layer of a weight, and no line of its file calls
        that layer: the module computes with the weight itself.
        """
        here = self.event.running[0] if self.event.running else None
        owner = (weight.parameter or "").rpartition(".")[0]
        inside = here is not None and (here is self.event.running[-1] or here.name == here.kind)
        inside = inside or (here is not None and owner.startswith(f"{here.name}."))
        return inside and bool(owner) and not self.called_too(owner)

    def called_too(self, layer: str) -> bool:
        """Whether a line of the file that fails calls a layer, by the last part of its name."""
        return called_in_file(self.event.at, layer.rpartition(".")[2])

    def of_another_tree(self, weight: Operand) -> bool:
        """Whether a weight is known to belong to a module that is no part of the outermost one that runs."""
        return self._root(weight) not in (None, 0)

    @property
    def gathers_by_hook(self) -> bool:
        """Whether a function that a hook calls fails, or one that such a function calls."""
        return self.flow.only_observes or self.flow.within_hook

    def of_one_model(self, one: Operand, other: Operand) -> bool | None:
        """Whether the layers that computed two activations are parts of the same model; None where the models
        are not known.
        """
        first, second = ({self._root(each)} - {None} for each in (one, other))
        return None if not first or not second else bool(first & second)

    def of_two_models(self, computed: Sequence[Operand]) -> tuple[Operand, Operand] | None:
        """The first two activations on two devices that parts of two models computed."""
        pairs = ((one, other) for one in computed for other in computed if one.device != other.device)
        return next((pair for pair in pairs if self.of_one_model(*pair) is False), None)

    def given_back_whole(self, operand: Operand) -> bool:
        """Whether the hook of a dispatched model as a whole sent it to where the inputs are, and code outside
        the model goes on with it.
        """
        newest, model = operand.decision, self.event.running[-1] if self.event.running else None
        outside = all(place.function != "forward" for place in self.event.stack)
        return (
            outside
            and newest is not None
            and model is not None
            and (newest.kind, newest.name) == ("hook", model.name)
        )

    @cached_property
    def copies_apart(self) -> bool:
        """Whether the same weight of two copies of a model meets itself, or what was computed of it, while
        neither runs.
        """
        weights = [each for each in self.event.operands if each.decision is not None and each.decision.name]
        names = {each.decision.name for each in weights if each.decision is not None}
        alike = not self.in_model and bool(self.weights) and len(weights) > 1 and len(names) == 1
        return alike and any(self.of_one_model(weights[0], each) is False for each in weights[1:])

    @staticmethod
    def taken(operand: Operand) -> Decision | None:
        """The decision of the tensor that was asked for the device; None where it is from no tensor."""
        return None if operand.decision is None else operand.decision.first_taken

    def follows_another_model(self, operand: Operand) -> bool:
        """Whether it is an input, and the program asked a model that does not run where to send it."""
        newest, first = operand.decision, self.taken(operand)
        if newest is None or newest.kind != "moved" or operand.from_argument is None:
            return False
        weight = first is not None and first.kind == "placed" and not first.inherited
        return weight and first is not None and self._root_of(first) not in (None, 0)

    def follows_a_layer(self, operand: Operand) -> bool:
        """Whether it was sent to where a layer of the running model had computed something."""
        newest, first = operand.decision, self.taken(operand)
        sent = newest is not None and newest.kind == "moved"
        return sent and first is not None and first.kind in ("placed", "hook") and first.name is not None

    def handed_on(self, operand: Operand) -> bool:
        """Whether one model computed it and another one of a package, whole on its GPU, was called with it.

        Parts of the script's own that stand on several GPUs are one model that was cut.
        """
        outermost = self.event.running[-1] if self.event.running else None
        whole = outermost is not None and len(set(outermost.below)) == 1
        newest = operand.decision
        own = [each for each in self.event.placements if each.root == 0]
        apart = bool(own) and newest is not None and not any(_alike(each, newest) for each in own)
        foreign = not self.by_user(self.event.at)
        return whole and apart and foreign and operand.from_argument is not None and self.activation(operand)

    def beside_its_model(self, operand: Operand, computed: Operand) -> bool:
        """Whether an operand was put beside a weight of the model that computed another one."""
        first = self.taken(operand)
        root = None if first is None or first.kind != "placed" else self._root_of(first)
        return root is not None and root == self._root(computed)

    def of_another_model(self, operand: Operand) -> bool:
        """Whether layers computed it that are known to be no part of the outermost running module, all of
        which is on one GPU.
        """
        model = self.event.running[-1] if self.event.running else None
        whole = model is not None and len(set(model.below)) == 1
        return whole and self.activation(operand) and self._root(operand) not in (None, 0)

    def fed(self, kept: Operand, computed: Operand) -> bool:
        """Whether one operand was computed from the attribute that keeps the other one."""
        return bool(self.attributes(kept) & self.attributes(computed))

    def attributes(self, operand: Operand) -> frozenset[str]:
        """The attributes of objects that an operand comes from, as the functions on the stack write them."""
        roots = self.flow.roots(self.expression(operand) or "")
        return frozenset(root.text for root in roots if root.kind == "attribute")

    @staticmethod
    def was_placed_on(weight: Operand, device: str) -> bool:
        """Whether a weight had been placed on a device before its newest decision."""
        return any((step.kind, step.device) == ("placed", device) for step in weight.lineage[1:])

    def _root(self, operand: Operand) -> int | None:
        return None if operand.decision is None else self._root_of(operand.decision)

    def _root_of(self, newest: Decision) -> int | None:
        alike = [each for each in self.event.placements if _alike(each, newest) and _may_have(each, newest)]
        then = [each for each in alike if each.first <= newest.order <= each.last]
        roots = {each.root for each in then or alike}
        return roots.pop() if len(roots) == 1 else None

    @staticmethod
    def of_a_buffer(operand: Operand) -> bool:
        """Whether it is a buffer, or the failing function computed it from one that is there."""
        parts = (each.role for each in operand.ingredients if each.device == operand.device)
        return operand.role == "buffer" or "buffer" in parts

    @staticmethod
    def computed_from_others(weight: Operand) -> bool:
        """Whether a weight or buffer was computed from what the weights of another module computed."""
        own, *before = weight.lineage or (None,)
        return own is not None and any(
            step is not None and step.kind == "placed" and step.name not in (None, own.name)
            for step in before
        )

    def left_by_move(self, operand: Operand) -> bool:
        """Whether it follows the decision that another operand followed before that one was moved."""
        newest = operand.decision
        if newest is None or newest.at is None:
            return False
        before = (step for each in self.event.operands if each is not operand for step in each.lineage[1:])
        return any(_alike(step, newest) for step in before)

    def stayed_behind(self, operand: Operand) -> str | None:
        """The argument of the outermost module that the operand comes from, where other arguments are on
        another device of the failing operands; None where all arguments are on one device.
        """
        name = self.given(operand)
        top = (name or "").partition("[")[0]
        others = {
            device
            for given, device in self.event.arguments
            if given != name and not (given.partition("[")[0] == top and device == operand.device)
        }
        elsewhere = {each.device for each in self.event.operands if each.device != operand.device}
        if self.at_home(operand):
            return None
        return name if name is not None and operand.device not in others and others & elsewhere else None

    def parted(self, operand: Operand) -> str | None:
        """The argument of a module inside the model that stayed behind, where another one came along.

        It follows another tensor, or a layer put it there.
        """
        newest = operand.decision
        first = self.taken(operand)
        of_layer = first is not None and first.kind in ("placed", "hook")
        follows = newest is not None and (newest.source == "tensor" or of_layer)
        moved = newest.at if newest is not None and newest.kind == "moved" else None
        sent = moved is not None and self.runs(moved) and self.born(operand) is None
        return operand.parted if follows or sent or self.activation(operand) else None

    @staticmethod
    def activation(operand: Operand) -> bool:
        """Whether a layer computed it: it is where the weights of that layer, or its hook, had it put, or was
        moved from there.
        """
        steps = operand.lineage
        if not steps or operand.role:
            return False
        if steps[0].kind == "moved" and len(steps) > 1:
            return steps[1].kind in ("placed", "hook")
        made_on_gpu = steps[0].kind == "created" and on_accelerator(steps[0].device)
        of_a_weight = steps[0].kind == "placed" or (
            (steps[0].kind == "loaded" or made_on_gpu) and steps[0].name is not None
        )
        return steps[0].kind == "hook" or (of_a_weight and steps[0].inherited)

    @staticmethod
    def born(operand: Operand) -> Decision | None:
        """The factory that made it where it is; None for what was moved there or computed from a weight."""
        steps = operand.lineage
        if steps and steps[0].kind == "created":
            at = steps[0].at
            anew = at is not None and bool(WRITES_ANEW & methods_called(at.call or at.code))
            return steps[0] if steps[0].name is None and not anew else None
        at_once = len(steps) > 1 and steps[0].kind == "moved" and steps[1].kind == "created"
        if at_once and steps[0].at == steps[1].at:
            return steps[0]  # `tensor(..., device=...)`
        told = at_once and steps[0].source == "computed"  # `zeros(...).to(get_device())`
        return steps[0] if told and _line(steps[0].at) == _line(steps[1].at) else None

    def related(self, one: Operand, other: Operand) -> bool | None:
        """Whether two operands come from the same input; None where the source does not tell."""
        first, second = self._inputs(one), self._inputs(other)
        return None if not first or not second else bool(first & second)

    def _inputs(self, operand: Operand) -> frozenset[Root]:
        """What an operand comes from, without what objects keep, and what the function counts out itself: the
        places `arange(x.shape[1])` are no input beside `x`.
        """
        given = {name.partition("[")[0] for name, _ in self.event.arguments}
        return frozenset(
            root
            for root in self.flow.roots(self.expression(operand) or "")
            if (root.kind in ("made", "item") and not _counted_out(root))
            or (root.kind == "argument" and root.text in given)
        )

    def expression(self, operand: Operand) -> str | None:
        """The operand as the failing expression writes it; None where that cannot be told."""
        if operand is self.group:
            return None  # its name is that of the module whose function is called
        if operand.local is not None and not self._only_found(operand.local):
            return operand.local
        if operand.name in self._written and not self._no_tensor(self._written[operand.name]):
            return self._written[operand.name]
        if operand.local is not None:
            return self.flow.as_written(operand.local.partition("[")[0]) or operand.local
        if operand.parameter and (read := self.flow.reads_weight(operand.parameter)) is not None:
            return read
        loaded = operand.decision is not None and operand.decision.kind == "loaded"
        state = not operand.role and (loaded or self.born(operand) is not None)
        if state and (stepped := self.flow.stepped()) is not None:
            return f"{stepped}.state"
        if operand.role and (called := self.flow.called_object(self._of_running(operand))) is not None:
            return called
        written = [ast.unparse(each) for each in self.flow.operands()]
        taken = {each.local for each in self.event.operands}
        taken |= {self.flow.reads_weight(each.parameter) for each in self.event.operands if each.parameter}
        other = (*_FUNCTIONAL, "self")
        free = [
            text for text in written if text not in taken and text not in other and not self._no_tensor(text)
        ]
        unnamed = [each for each in self.event.operands if each.local is None and not each.role]
        if not self.flow.calls and len(written) == 2 and operand.name in ("self", "other", "mat2"):
            return written[0 if operand.name == "self" else 1]
        if len(free) == 1 and unnamed == [operand]:
            return free[0]
        return self._given_there(operand) if operand.local is None and not operand.role else None

    def _no_tensor(self, name: str) -> bool:
        """Whether a variable of the failing function is none of its tensors."""
        held = {each.name for each in self.event.at_hand if each.line == self.event.at.line}
        return bool(held) and name.isidentifier() and name not in held and self.flow.is_local(name)

    def kept_from_before(self, operand: Operand) -> str | None:
        """What an earlier call of a function that runs was given, and put it on that one's device: this call
        was given something elsewhere. What objects keep is no such thing.
        """
        newest = operand.decision
        if newest is None or newest.source not in ("tensor", "argument") or newest.at is None:
            return None
        if operand.from_argument is not None or self.from_attribute(operand) or self.plain_attribute(operand):
            return None
        made = newest.at
        runs = {
            each.line for each in self.event.stack if (each.file, each.function) == (made.file, made.function)
        }
        now = {each.device for each in self.event.at_hand if each.name == newest.said and each.line in runs}
        of_now = any(  # the object says now what it said then
            each.kind == "device"
            and each.device == operand.device
            and each.name.startswith(f"{newest.said}.")
            for each in self.event.at_hand
        )
        given = newest.said is not None and not of_now and given_once(made, newest.said)
        return newest.said if given and now and operand.device not in now else None

    def filled_here(self, operand: Operand) -> str | None:
        """The attribute of an object that the operand alone comes from, where the failing function writes a
        part of it.
        """
        text = self.expression(operand)
        roots = self.flow.roots(text) if text is not None else frozenset()
        held = {root.text for root in roots if root.kind == "attribute"} if len(roots) == 1 else set()
        given = (operand.from_argument or "").partition("[")[0]
        held |= {given} if "." in given else set()
        written = self.flow.filled()
        return next((name for name in held if any(each.startswith(f"{name}[") for each in written)), None)

    def as_given(self) -> Failure:
        """The same with operands that the failing call computed itself called by its arguments."""
        named = {
            each.name: text
            for each in self.event.operands
            if each.local is None and not each.role and (text := self._given_there(each)) is not None
        }
        if not named:
            return self
        operands = [replace(each, local=named.get(each.name, each.local)) for each in self.event.operands]
        return replace(self, event=replace(self.event, operands=tuple(operands)))

    def _given_there(self, operand: Operand) -> str | None:
        """The only argument of the failing call that is on the operand's device: a function of torch computes
        with several operators, and one of them met what it had computed from its arguments.
        """
        at = self.event.at
        inside = operand.made is not None and (operand.made.file, operand.made.line) == (at.file, at.line)
        match parsed(at.call):
            case ast.Module(body=[ast.Expr(value=ast.Call(args=given, keywords=named))]) if inside:
                arguments = [*given, *(each.value for each in named)]
            case _:
                return None
        held = {each.name: each.device for each in self.event.at_hand if each.line == at.line}
        there = []
        for text in map(ast.unparse, arguments):
            names = names_of(text)
            devices = {held[name] for name in names if name in held}
            if names and not devices:
                return None  # what it is, nobody knows
            there += [text] if devices == {operand.device} else []
        return there[0] if len(there) == 1 else None

    def _only_found(self, name: str) -> bool:
        """Whether a tensor's name says where in a container it was found, not what the statement writes."""
        return "[" in name and "".join(name.split()) not in "".join(self.code.split())

    def _of_running(self, operand: Operand) -> bool:
        """Whether the innermost running module owns the weight."""
        running, owner = self.event.running, (operand.parameter or "").rpartition(".")[0]
        return bool(running) and owner == ("" if len(running) == 1 else running[0].name)

    @cached_property
    def _written(self) -> dict[str, str]:
        names = [each.name for each in self.event.operands if each is not self.group]
        return self.flow.written(self.op, names)

    @cached_property
    def feeds_backward(self) -> bool:
        """Whether the failing statement computes something of which gradients are taken, and is not part of
        taking them.
        """
        return self.flow.feeds(_DIFFERENTIATED) and not self.takes_gradients

    @cached_property
    def takes_gradients(self) -> bool:
        """Whether the failing statement is part of taking gradients."""
        return self.flow.runs_within(_DIFFERENTIATED)

    @cached_property
    def chooses_a_token(self) -> bool:
        """Whether a next token is chosen from what the failing statement computes, or ends the choosing."""
        return self.flow.feeds(CHOSEN)

    def beside_a_layer(self, operand: Operand) -> bool:
        """Whether a weight, or what a layer computed, meets it on its own device."""
        return any(
            each is not operand and each.device == operand.device and (each.role or self.activation(each))
            for each in self.event.operands
        )

    def carried(self, operand: Operand) -> bool:
        """Whether the operand comes from an earlier turn of a loop."""
        text = self.expression(operand)
        return text is not None and self.flow.carried(text)

    def is_kept(self, operand: Operand) -> bool:
        """Whether the failing statement writes to the attribute that holds the operand, or to its item."""
        return operand.local is not None and operand.local.partition("[")[0] == self.flow.kept_as()

    def statistic(self, operand: Operand) -> bool:
        """Whether the failing statement counts its inputs into what an object keeps, and computes nothing
        from that.
        """
        return (
            operand.role is None
            and self.is_kept(operand)
            and self.op.rstrip("_") in _COUNTS
            and self.flow.only_adds_up()
        )

    def handed_back(self, operand: Operand) -> bool:
        """Whether the call that an argument was given to gives its name the next value."""
        text = self.expression(operand)
        return text is not None and self.flow.handed_back(text)

    def from_attribute(self, operand: Operand) -> bool:
        """Whether the operand comes from attributes of an object alone, which somebody set before."""
        text = self.expression(operand)
        roots = self.flow.roots(text) if text is not None else frozenset()
        return bool(roots) and all(root.kind == "attribute" for root in roots)

    def kept_result(self, operand: Operand) -> bool:
        """Whether it is what layers computed at another time, and an object kept: the failing function read
        it from there.
        """
        newest, text = operand.decision, self.expression(operand) or ""
        name = "" if newest is None else (newest.name or "").rpartition(".")[2]
        of_weight = any(root.text.rpartition(".")[2] == name for root in self.flow.roots(text))
        return self.activation(operand) and not of_weight and self.from_attribute(operand)

    @cached_property
    def handed_to_package(self) -> frozenset[str]:
        """Where the tensors are that the script handed to the function of a package, below which the
        statement fails; none where a function of the script fails.
        """
        below = next((n for n, place in enumerate(reversed(self.event.stack)) if self.by_user(place)), 0)
        if not below:
            return frozenset()
        entered = self.event.stack[-below]
        return frozenset(
            each.device
            for each in self.event.at_hand
            if (each.kind, each.file, each.function, each.line)
            == ("tensor", entered.file, entered.function, entered.line)
        )

    def of_an_earlier_call(self, operand: Operand) -> bool:
        """Whether a package computed it from what the script had handed over in another call than this."""
        newest, handed = operand.decision, self.handed_to_package
        if newest is None or not newest.inherited or not self.by_user(newest.user_at or newest.at):
            return False
        if operand.from_argument is not None or operand.role or self.activation(operand):
            return False
        met = {each.device for each in self.event.operands if each.device != operand.device}
        return bool(handed) and operand.device not in handed and met <= handed

    def computed_now(self, operand: Operand) -> bool:
        """Whether a function that the failing expression calls for it computed it: nobody kept it."""
        made, text = operand.made, self.expression(operand)
        if made is None or text is None or operand.local is not None:
            return False  # what a variable reaches is there longer
        if made.function == self.event.at.function:
            return False
        return made.function in self.flow.given_by_functions(text) | functions_called(text)

    def handed_down(self, operand: Operand) -> bool:
        """Whether the failing function did not make the operand: it is an argument, or a variable of the
        script, that somebody above made.
        """
        text = self.expression(operand)
        roots = self.flow.roots(text) if text is not None else frozenset()
        return any(root.kind == "item" or root.depth > 0 for root in roots)

    def follows(self, operand: Operand) -> bool:
        """Whether it was made on the device of a tensor that it meets, or that stands beside it."""
        newest = operand.decision
        if newest is None or newest.source != "tensor" or newest.inherited:
            return False
        beside = {each.local for each in self.event.operands if each is not operand}
        said = newest.said or ""
        of_model = said == "self" or ".parameters(" in said  # its first weight's, whatever stands beside
        return newest.said in beside or (
            not of_model and newest.at is not None and newest.at.function == self.event.at.function
        )

    def made_inside(self, operand: Operand) -> bool:
        """Whether the operand was made while the model ran, or in the failing function where none runs."""
        born = self.born(operand)
        if born is None or operand.from_argument is not None or operand.kept_by is not None:
            return False
        if self.made_here(operand):
            return True
        text = self.expression(operand)
        if text is not None and text.isidentifier() and self.flow.moves_a_copy(text):
            return False  # an input of the model, of which the function uses the tensor that stayed
        early = born.at is None or born.at.function in ("__init__", "<module>")
        return text is not None and not early and self.flow.made_within(text, self.flow.model_depth or 0)

    def sent_by_table(self, operand: Operand) -> str | None:
        """The move, to a device that is looked up in a table, that gave the operand its value."""
        text = self.expression(operand)
        return self.flow.moved_by_table(text) if text is not None else None

    def of_weights(self, operand: Operand) -> bool:
        """Whether it comes from what a module lists as its weights, while no `forward` runs."""
        text = self.expression(operand)
        roots = self.flow.roots(text) if text is not None else frozenset()
        return not self.in_model and any(
            root.kind == "item" and _LISTS_WEIGHTS.search(root.text) for root in roots
        )

    def of_module_there(self, operand: Operand) -> bool:
        """Whether it comes only from a module that an attribute holds, all of which is on its device."""
        text = self.expression(operand)
        roots = self.flow.roots(text) if text is not None else frozenset()
        there = {
            each.name
            for each in self.event.at_hand
            if each.kind == "module" and each.device == operand.device
        }
        return bool(roots) and all(root.kind == "attribute" and root.text in there for root in roots)

    def gradient(self, operand: Operand) -> bool:
        """Whether it is the gradient of a parameter."""
        if operand.gradient:
            return True
        text = self.expression(operand)
        return text is not None and self.flow.reads_attribute(text, "grad")

    def from_gradient(self, operand: Operand) -> bool:
        """Whether it is the gradient of a parameter, or the failing function computed it from one."""
        text = self.expression(operand) or self.event.at.call  # one of those that a comprehension makes there
        return self.gradient(operand) or self.flow.comes_from_attribute(text, "grad")

    def decided_by_user(self, operand: Operand) -> bool:
        """Whether a line of the user's own script put this very tensor on its device, by a factory or a
        move.
        """
        newest = operand.decision
        if newest is None or newest.inherited or newest.kind not in ("created", "moved"):
            return False
        return self.by_user(newest.user_at or newest.at)

    def made_here(self, operand: Operand) -> bool:
        """Whether the failing line, or the function that fails and is given something, made the operand by a
        factory, or computed it from what a factory made there.
        """
        newest = self.born(operand)
        at = self.event.at
        if newest is None or newest.at is None:
            return False
        same = (newest.at.file, newest.at.function) == (at.file, at.function)
        return same and (newest.at.line == at.line or takes_arguments(at))

    def made_by_library(self, operand: Operand) -> bool:
        """Whether a library made it on the host, or by default, and met it itself: nobody handed it in."""
        born = self.born(operand)
        if born is None or born.at is None or not _by_default(born):
            return False
        if self.left_by_library(operand):
            return True
        places = (born.at, born.user_at, self.event.at)
        return operand.from_argument is None and not any(self.by_user(each) for each in places)

    def made_for_an_argument(self, operand: Operand) -> bool:
        """Whether a helper in the file that fails made it, outside the model, on the device of something that
        the helper was given: nobody handed it in.
        """
        born = self.born(operand)
        if born is None or born.at is None or (born.kind, born.source) != ("created", "tensor"):
            return False
        if self.in_model or self.feeds_backward or self.computes_loss or self.op in ("eq", "ne"):
            return False
        given = (born.said or "").partition("[")[0].partition(".")[0]
        return born.at.file == self.event.at.file and given_once(born.at, given)

    def left_by_library(self, operand: Operand) -> bool:
        """Whether a function of a library that still runs made it on the host, or by default, or a module
        that is elsewhere did and gave it back to the script.
        """
        born = self.born(operand)
        if born is None or born.at is None or self.by_user(born.at) or not _by_default(born):
            return False
        return self.runs(born.at) or self._of_a_module_elsewhere(operand)

    def _of_a_module_elsewhere(self, operand: Operand) -> bool:
        """Whether a module on another device was called to get it."""
        modules = {
            each.name
            for each in self.event.at_hand
            if each.kind == "module" and each.device != operand.device
        }
        text = self.expression(operand)
        return text is not None and bool(modules & self.flow.given_by(text))

    def sent_away(self, operand: Operand) -> bool:
        """Whether a line took it, or what it was computed from, to the host from where all others are."""
        steps = operand.lineage
        if len(steps) < 2 or (steps[0].kind, steps[0].device, steps[0].source) != ("moved", "cpu", "literal"):
            return False
        met = {each.device for each in self.event.operands if each is not operand}
        return met == {steps[1].device} and on_accelerator(steps[1].device)

    def forgotten(self, operand: Operand) -> bool:
        """Whether a function made it without a device, and puts something else on one."""
        born = self._made_by_a_function(operand)
        return born is not None and moves_others(born)

    def sized_by_an_argument(self, operand: Operand) -> bool:
        """Whether a function made it without a device, as large as something that it was given."""
        born = self._made_by_a_function(operand)
        return born is not None and reads_a_size(born)

    def _made_by_a_function(self, operand: Operand) -> Place | None:
        born = self.born(operand)
        if born is None or born.source != "default" or born.at is None or not takes_arguments(born.at):
            return None
        if born.at.function == "__init__" or self.from_attribute(operand):
            return None  # an object keeps it
        return born.at

    def made_for_this_call(self, operand: Operand) -> bool:
        """Whether a function that the failing one calls made it; also where it did so for an earlier call."""
        born, text = self.born(operand), self.expression(operand)
        if born is None or born.at is None or text is None:
            return False
        return born.at.function in self.flow.given_by_functions(text)

    def left_others(self, operand: Operand) -> bool:
        """Whether the operand is on a GPU and all that it met was left behind on the host.

        A weight on the host was not left behind.
        """
        away = [other for other in self.event.operands if other.device != operand.device]
        return (
            on_accelerator(operand.device)
            and bool(away)
            and all(other.device == "cpu" and not other.role for other in away)
        )

    def kept_by_the_model(self, operand: Operand) -> bool:
        """Whether a running module keeps it since it was built, and nothing that moves the module reaches it:
        in a plain attribute, object, list or function of its own.
        """
        newest = operand.decision
        if operand.kept_within is None or operand.holder is not None or newest is None:
            return False
        if newest.kind == "hook" or self.activation(operand) or self.is_kept(operand):
            return False
        if not self.placements:  # a module that has no weights
            return newest.at is not None and newest.at.function == "__init__"
        return newest.order < max(each.last for each in self.placements) or newest.kind == "placed"

    def placed_by_user(self, operand: Operand) -> bool:
        """Whether the operand's last move, or else its birth, is in the user's own script.

        Where neither is known, who holds it.
        """
        place = operand.moved or operand.made
        return operand.held_by_user if place is None else self.by_user(place)

    def plain_attribute(self, operand: Operand) -> tuple[str, str, Place | None] | None:
        """Name, class and birthplace of the plain attribute of a module that the operand is.

        Or from which it was computed on its device.
        """
        built = operand.moved is None or operand.moved.function == "__init__"
        if operand.kept_by and operand.local and built:
            return operand.local, operand.kept_by, operand.made
        parts = [
            (part.name, part.kept_by, part.made)
            for part in operand.ingredients
            if part.kept_by and part.device == operand.device and part.moved is None
        ]
        decided = None if operand.decision is None else operand.decision.at
        return (
            next((each for each in parts if decided is not None and each[2] == decided), parts[0])
            if parts
            else None
        )

    def made_by_factory(self, operand: Operand) -> bool:
        """Whether a line of library code made the operand from nothing, or from Python values."""
        return (
            operand.made is not None
            and not self.by_user(operand.made)
            and bool(FACTORY.search(made_text(operand)))
        )

    @cached_property
    def alone(self) -> Operand | None:
        """The operand that has a device for itself while all others, two or more, share another."""
        tensors = [
            each
            for each in self.event.operands
            if each.dtype and not (each.device == "cpu" and each.shape == ())
        ]
        by_device = {
            device: [each for each in tensors if each.device == device]
            for device in {each.device for each in tensors}
        }
        single = [held[0] for held in by_device.values() if len(held) == 1]
        return single[0] if len(by_device) == 2 and len(single) == 1 and len(tensors) > 2 else None

    def odd(self, *candidates: Operand) -> Operand | None:
        """The operand that is most likely in the wrong place.

        The candidate that is alone on its device or away from the running module's, or else on the host, or
        else the last.
        """
        if not candidates:
            return None
        if self.alone in candidates and self.by_user(self.event.at):
            return self.alone
        at = self.event.at
        here = [
            each
            for each in candidates
            if each.moved is not None and (each.moved.file, each.moved.line) == (at.file, at.line)
        ]
        if here and len(here) < len(candidates):  # what the failing line itself brought over is right
            candidates = tuple(each for each in candidates if each not in here)
        if self.home is not None:
            for operand in candidates:
                if operand.device != self.home:
                    return operand
        for operand in candidates:
            if operand.device == "cpu":
                return operand
        return candidates[-1]

    def sent_by_this_line(self, operand: Operand) -> bool:
        """Whether it was computed from what the failing line sent to its device: by its own words, or because
        an earlier refusal of the line was healed.
        """
        newest = operand.decision
        return newest is not None and newest.kind == "moved" and _line(newest.at) == _line(self.event.at)

    def mapped(self, parameter: str) -> str | None:
        """Where the map puts a parameter; None when the map does not reach it."""
        return mapped(self.event.device_map, parameter)

    def written(self, operand: Operand) -> str:
        """The operand as its reader finds it in the failing statement.

        Or else by the name of its argument.
        """
        if operand.local or operand.parameter:
            return operand.local or operand.parameter or operand.name
        return (self.expression(operand) or operand.argument or operand.name)[:60]

    def ran_in(self, pattern: str) -> bool:
        """Whether any frame is in such a file or function."""
        compiled = re.compile(pattern)
        return any(compiled.search(place_text(place)) for place in self.event.stack)


def writes_itself(decision: Decision) -> bool:
    """Whether the function that decided, or a helper of it, wrote the GPU that reached the deciding line in a
    variable: as `cuda`, which nothing says of itself.
    """
    computed = decision.source == "computed" and decision.without_index and decision.device != "cpu"
    return computed and decision.at is not None and writes_gpu(decision.at)


def _is_numbered(module: Running) -> bool:
    """Whether it is one of a list of modules."""
    return module.name.rpartition(".")[2].isdecimal()


def place_text(place: Place | None) -> str:
    """`file:function` with forward slashes."""
    return "" if place is None else f"{place.file}:{place.function}".replace("\\", "/")


def _counted_out(root: Root) -> bool:
    """Whether the failing function makes it by the size of something else."""
    return root.kind == "made" and root.depth == 0 and bool(_SIZE.search(root.text))


_SIZE = re.compile(r"\.(?:shape|size\(|num_\w+)|\blen\(")


def made_text(operand: Operand) -> str:
    """Source of the line that made the operand."""
    return "" if operand.made is None else (operand.made.call or operand.made.code)


def moved_text(operand: Operand) -> str:
    """Source of the line that moved the operand last."""
    return "" if operand.moved is None else (operand.moved.call or operand.moved.code)


def spelled(operand: Operand) -> str:
    """Every name that the operand goes by."""
    return " ".join(filter(None, (operand.local, operand.argument, operand.parameter, operand.holder)))
