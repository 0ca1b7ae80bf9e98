"""The lines of `compile-proof`: models with a mismatch and healthy ones, each compiled in one way."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, cast

import torch
from torch import nn

import samedevice as sd
from evidence.environments import twin_device
from samedevice.guards._heal import QUIET_CALLS

CALLS = QUIET_CALLS + 4


class Block(nn.Module):
    """A linear layer with something behind it."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.tanh(self.linear(x))


class Pair(nn.Module):
    """Two blocks, which may be on two devices."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = Block(), Block()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.doubled(self.second(self.first(x)))

    def doubled(self, x: torch.Tensor) -> torch.Tensor:
        """A method beside `forward`, which is healed as well."""
        return x * 2


class Helper(Pair):
    """Makes a tensor on the host, whatever its own device."""

    host = True

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        scale = torch.arange(4.0) if self.host else torch.arange(4.0).to(x.device)
        result: torch.Tensor = self.second(self.first(x) * scale)
        return result


def in_place(model: nn.Module, **options: Any) -> nn.Module:
    """`model.compile()`."""
    model.compile(**options)
    return model


def blocks(model: nn.Module, **options: Any) -> nn.Module:
    """Each block compiled for itself."""
    for name, block in list(model.named_children()):
        setattr(model, name, torch.compile(block, **options))
    return model


WAYS: dict[str, tuple[Callable[..., Any], bool]] = {
    "heal(compile(m))": (torch.compile, False),
    "compile(heal(m))": (torch.compile, True),
    "heal(m.compile())": (in_place, False),
    "heal(m).compile()": (in_place, True),
    "heal(blocks)": (blocks, False),
}
"""How a model is compiled, and whether it is healed before that."""


def healed(way: str, model: nn.Module, **options: Any) -> tuple[nn.Module, Any]:
    """The model, compiled and healed, and what `sd.heal` returned."""
    compiled, before = WAYS[way]
    if before:
        healing = sd.heal(model)
        return compiled(model, **options), healing
    model = compiled(model, **options)
    return model, sd.heal(model)


class Checks:
    """Prints what was seen, and counts what is not as it must be."""

    def __init__(self) -> None:
        self.lines = self.wrong = 0

    def __call__(self, text: str, good: bool) -> None:
        self.lines += 1
        self.wrong += not good
        print(f"  {'ok   ' if good else 'WRONG'} {text}", flush=True)


def made(kind: type[nn.Module], first: str, second: str) -> nn.Module:
    """The model with its blocks on two devices; the weights are always the same."""
    torch.manual_seed(0)
    model = kind()
    model.first.to(first)
    model.second.to(second)
    return model


Numbers = list[list[torch.Tensor]]
"""Results and gradients of each call."""


def ran(model: Any, device: str) -> tuple[Numbers, str]:
    """The numbers of some calls, and the graphs and breaks that they cost."""
    torch.manual_seed(1)
    x, found, counted = torch.randn(2, 4).to(device), [], []
    for _ in range(CALLS):
        model.zero_grad()
        result = model(x)
        result.sum().backward()
        found.append([result.detach().cpu(), *(parameter.grad.cpu() for parameter in model.parameters())])
        counted.append(counts())
    steady = "" if counted[-1] == counted[-2] else ", and still compiling"
    return found, f"{counted[-1]}{steady}"


def counts() -> str:
    """What torch compiled since it was asked to forget."""
    counters = torch._dynamo.utils.counters
    return (
        f"{counters['stats'].get('unique_graphs', 0)} graphs, {sum(counters['graph_break'].values())} breaks"
    )


def forget() -> None:
    """Let torch forget what it compiled."""
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()


def equal(found: Numbers, compiled: Numbers, written: Numbers) -> bool:
    """Bit for bit: each call as compiled or as written, the last one as compiled."""

    def same(ones: list[torch.Tensor], others: list[torch.Tensor]) -> bool:
        return len(ones) == len(others) and all(map(torch.equal, ones, others))

    pairs = zip(found, compiled, written, strict=True)
    return same(found[-1], compiled[-1]) and all(
        same(one, other) or same(one, own) for one, other, own in pairs
    )


def expected(kind: type[nn.Module], device: str, **options: Any) -> tuple[Numbers, Numbers, str]:
    """The numbers on one device, compiled and as written, not healed, and what compiling cost."""
    forget()
    model = made(kind, device, device)
    model.host = False  # type: ignore[assignment] # of Helper
    written, _ = ran(model, device)
    compiled, seen = ran(torch.compile(model, **options), device)
    return compiled, written, seen


def prove_healing(check: Checks, backend: str) -> None:
    """A model that is split, one whose input is elsewhere, one that makes a tensor inside."""
    cases = (
        ("split", Pair, "twin:0", "twin:1"),
        ("input", Pair, "twin:1", "twin:1"),
        ("inside", Helper, "twin:0", "twin:0"),
    )
    for name, kind, *places in cases:
        for full in (False, True):
            options: dict[str, Any] = {"backend": backend, "fullgraph": full}
            *wanted, _ = expected(kind, "twin:0", **options)
            for way in WAYS:
                if full and way in ("compile(heal(m))", "heal(m).compile()"):
                    continue  # refused, below
                forget()
                model, healing = healed(way, made(kind, *places), **options)
                found, seen = ran(model, "twin:0")
                kinds = len(healing.repairs)
                steady = "still" not in seen
                words = " fullgraph" * full
                check(
                    f"{name:7} {backend:9}{words} {way:18} equal numbers, {kinds} repairs; {seen}",
                    equal(found, *wanted) and steady,
                )
                healing.remove()


def prove_refusal(check: Checks) -> None:
    """Healing inside of the one graph that was asked for is refused, and says what to do."""
    for way in ("compile(heal(m))", "heal(m).compile()"):
        forget()
        model, _ = healed(way, made(Pair, "twin:0", "twin:1"), backend="eager", fullgraph=True)
        text = ""
        try:
            ran(model, "twin:0")
        except RuntimeError as error:
            text = str(error)
        check(f"fullgraph {way:18} is refused and told what to do", "samedevice heals here" in text)


def prove_healthy(check: Checks, backend: str, device: str) -> None:
    """A healthy model has the graphs that it has without us, in one piece where we are around it."""
    for full in (False, True):
        options: dict[str, Any] = {"backend": backend, "fullgraph": full}
        *wanted, plain = expected(Pair, device, **options)
        for way in ("heal(compile(m))", "heal(m.compile())"):
            forget()
            model, healing = healed(way, made(Pair, device, device), **options)
            found, seen = ran(model, device)
            check(
                f"healthy {backend:9}{' fullgraph' * full} {way:18} {seen}",
                equal(found, *wanted) and seen == plain and not healing.repairs,
            )
        forget()
        with sd.guard(model := cast(nn.Module, torch.compile(made(Pair, device, device), **options))):
            found, seen = ran(model, device)
        check(
            f"healthy {backend:9}{' fullgraph' * full} guard              {seen}",
            equal(found, *wanted) and seen == plain,
        )


def prove_block(check: Checks) -> None:
    """In a block compiled code runs as it was written, and afterwards compiled."""
    *wanted, _ = expected(Helper, "twin:0", backend="eager")
    forget()
    model = torch.compile(made(Helper, "twin:0", "twin:1"), backend="eager")
    with sd.heal() as healing:
        found, seen = ran(model, "twin:0")
    check(
        f"block: equal numbers, {len(healing.repairs)} repairs; {seen}",
        equal(found, *wanted) and seen.startswith("0 graphs"),
    )


def prove_guard(check: Checks) -> None:
    """The compiler's error gets the statement that it was tracing."""
    for full in (False, True):
        forget()
        model: Any = torch.compile(made(Helper, "twin:0", "twin:0"), backend="eager", fullgraph=full)
        finding: Any = None
        try:
            with sd.guard(model):
                ran(model, "twin:0")
        except RuntimeError as error:
            finding = getattr(error, "finding", None)
        good = finding is not None and finding.code == "SD101" and "* scale" in finding.at.code
        good = good and [operand.device for operand in finding.operands] == ["twin:0", "cpu"]
        check(
            f"guard{' fullgraph' * full}: {finding.title if finding else None} at "
            f"{finding.at.code if finding else None}",
            good,
        )


def prove_records(check: Checks) -> None:
    """What is exported or traced has the moves that were learned before, and nothing is learned then."""
    x = torch.ones(2, 4).to("twin:0")
    wanted = made(Pair, "twin:0", "twin:0")(x).detach().cpu()

    def recorded(model: nn.Module, how: str) -> Any:
        if how == "torch.jit.trace":
            return torch.jit.trace(model, (x,))
        return torch.export.export(model, (x,), strict=how.endswith("strict")).module()

    for how in ("torch.export", "torch.jit.trace"):
        for warm in (True, False):
            with torch.no_grad():
                model = made(Pair, "twin:0", "twin:1").eval()
                healing = sd.heal(model)
                for _ in range(CALLS * warm):
                    model(x)
                try:
                    record = recorded(model, how)
                except RuntimeError as error:
                    check(
                        f"{how}, not called before: {error.__notes__[0]}",
                        not warm and "nothing is learned" in error.__notes__[0],
                    )
                    continue
                healing.remove()
                check(
                    f"{how}, learned before: equal numbers without the healing",
                    warm and torch.equal(record(x).cpu(), wanted),
                )
    for how in ("torch.export", "torch.export strict", "torch.jit.trace"):
        model = made(Pair, "twin:0", "twin:0").eval()
        with sd.guard(model), torch.no_grad():
            found = recorded(model, how)(x).cpu()
        check(f"{how} of a healthy model under guard: equal numbers", torch.equal(found, wanted))


def run() -> int:
    """Run the proof and print its table."""
    logging.getLogger("samedevice").setLevel(logging.ERROR)
    twin_device.enter()
    check = Checks()
    for backend in ("eager", "aot_eager"):
        prove_healing(check, backend)
        prove_healthy(check, backend, "twin:0")
    prove_healthy(check, "inductor", "cpu")
    prove_refusal(check)
    prove_block(check)
    prove_guard(check)
    prove_records(check)
    print(f"{check.lines - check.wrong} of {check.lines} lines ok")
    return min(check.wrong, 1)
