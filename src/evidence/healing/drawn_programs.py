"""Random programs for the proof of healing: modules with aliases, views and writes, as source text.

Each program is drawn so that memory is reached in several ways and written to, which is what a moved copy
would miss: slices of the same memory are arguments, attributes, buffers, parts of lists and results at once,
and statements prefer to write to memory that has several names. `place(n)` in a program is the device of its
n-th piece of memory: one and the same for the run on one device.
"""

from __future__ import annotations

from random import Random

CALLS = 5
_HEAD = """import contextlib, copy, torch
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

class Both(torch.autograd.Function):
    @staticmethod
    def forward(context, p, q):
        context.save_for_backward(p, q)
        return p * q
    @staticmethod
    def backward(context, gradient):
        p, q = context.saved_tensors
        return gradient * q, gradient * p

def memory(number, device):
    return (torch.arange(8.0) * 0.37 - 0.9 + 0.13 * number).to(device)
"""
PURE = """
{p} + {q} | {p} * {q} | {p} - 2 * {q} | 0.5 - {p} * {q} | {p} / ({q} * {q} + 1) | torch.addcmul({p}, {q}, {r})
torch.where({p} > {q}, {p}, {r}) | torch.maximum({p}, {q}) | torch.lerp({p}, {q}, 0.3) | torch.stack([{p}, {q}]).sum(0)
torch.cat([{p}, {q}])[::2] | torch.outer({p}, {q}).sum(1) | torch.einsum("i,j->i", {p}, {q}) | torch.outer({p}, {q}) @ {r}
F.layer_norm({p}, (4,), {q}, {r}) | {p}[self.idx] * {q} | {p}.gather(0, self.idx) | F.mse_loss({p}, {q}) * {r}
torch.cdist({p}[None], {q}[None])[0, 0] * {r} | F.cosine_similarity({p}, {q}, dim=0) * {r} | torch.dot({p}, {q}) * {r}
torch.clamp({p}, min={q}) | torch.atan2({p}, {q}) | {p}.masked_fill(self.mask, 0.5) + {q} | torch.exp({p}) * {q}
torch.sigmoid({p} + {q}) | F.scaled_dot_product_attention({p}.view(1, 1, 4), {q}.view(1, 1, 4), {r}.view(1, 1, 4)).view(4)
torch.meshgrid({p}, {q}, indexing="ij")[0][:, 0] | F.embedding(self.idx, torch.outer({p}, {q})).sum(0)
F.cross_entropy(torch.outer({p}, {q}), self.idx) * {r} | {p}.expand(3, 4).mul({q}).sum(0) | torch.addmv({p}, torch.outer({q}, {q}), {r})
Both.apply({p}, {q}) | {p} * self.s | {p} * self.s + {q} | F.linear({p}, torch.outer({q}, {r}), {q})
F.batch_norm(torch.outer({p}, {q}), self.buf, self.var, training=True).sum(0)
F.batch_norm(torch.outer({p}, {q}), self.buf, self.var, {r}).sum(0) | torch.tensordot({p}, {q}, dims=0).sum(0)
torch.broadcast_tensors({p}, {q})[0] * 1 | torch._foreach_mul([{p}, {q}], [{q}, {r}])[0] | {p} ** 2 + {q}
F.bilinear({p}[None], {q}[None], torch.outer({q}, {r})[None])[0, 0] * {p} | self.lin({p}) | self.lin({p}) * {q}
self.lin({p}) + {q} * {r} | checkpoint(lambda one, two: one * two, {p}, {q}, use_reentrant=False) | torch.linalg.vecdot({p}, {q}) * {r}
F.softmax({p} * {q}, 0) | {p}.tanh() * {q} | torch.baddbmm({p}.view(1, 2, 2), {q}.view(1, 2, 2), {r}.view(1, 2, 2)).view(4)
torch.take({p}, self.idx) - {q} | F.pairwise_distance({p}, {q}) * {r}
"""
VIEWS = """
{p}[:] | {p}.view(2, 2).view(4) | {p}.detach() | {p}.data | {p}.view_as({p}) | {p}.view(2, 2).t().t().view(4)
{p}.as_strided((4,), (1,)) | {p}.expand(4)
"""
WRITES = """
{p}.add_({q}) | {p}.mul_({q}) | {p} += {q} | {p} *= {q} | {p}[0:2] = {q}[0:2] | {p}[1:3] += {q}[1:3] | {p}[self.mask] = {q}[self.mask]
{p}.copy_({q}) | {p}.lerp_({q}, 0.5) | {p}.addcmul_({q}, {r}) | {p}.data.add_({q}) | {p}.data.mul_(0.5) | {p}.data.copy_({q} * 2)
{p}.detach().sub_({q}) | torch.add({p}, {q}, out={r}) | torch.mul({p}, {q}, out={r}[:])
torch._foreach_add_([{p}, {r}], [{q}, {p}]) | torch._foreach_mul_([{p}, {r}], 0.9) | torch._foreach_lerp_([{p}, {r}], [{q}, {q}], 0.5)
torch._foreach_copy_([{p}], [{q}]) | {p}.index_add_(0, self.idx, {q}) | {p}.scatter_(0, self.idx, {q})
{p}.masked_fill_(self.mask, 0.25) | {p}[self.idx] = {q} | {p}.clamp_(max={q}) | {p}.mul_(self.s) | {p}.data.mul_(self.s)
{p}.sub_({q} * {r}) | {p}.view(2, 2)[0].add_({q}.view(2, 2)[1]) | {p}.data[1:3] = {q}[0:2] | torch.sub({p}, {q}, out={p})
torch._foreach_addcmul_([{p}], [{q}], [{r}]) | {p}.data.copy_({q} + {r}) | {p}.detach().mul_({q}) | {p}.fill_(0.3).add_({q})
{p}.zero_() | {p}.index_copy_(0, self.perm, {q}) | {p}.addcdiv_({q}, {r} * {r} + 1) | {p}.set_({q}) | {p}.random_(0, 5) | {p}.uniform_()
F.relu_({p}) | {p}.exp_().mul_({q})
"""
STORES = """
self.held = {p} | self.kept.append({p}) | state['k'] = {p} | self.buf = {p}.detach() | self.kept[:] = [{p}, {q}]
"""
GRADS = """
{p}.requires_grad_() | {p}.requires_grad and {p}.retain_grad() | {p}.requires_grad and {p}.register_hook(lambda g: g * 2)
{p}.requires_grad and {p}.register_hook(lambda g: seen.append(g) or g.mul(0.5))
{p}.requires_grad and {p}.grad is not None and {p}.grad.zero_()
"""


def _rows(text: str) -> list[str]:
    return [row.strip() for line in text.strip().splitlines() for row in line.split(" | ")]


_PURE, _VIEWS, _WRITES, _STORES, _GRADS = map(_rows, (PURE, VIEWS, WRITES, STORES, GRADS))
_RANDOM = ("random_(", "uniform_(")


class _Body:
    """The statements of one function, and which names reach the same memory."""

    def __init__(self, random: Random, names: dict[str, int]) -> None:
        self.random = random
        self.memory = dict(names)
        self.lines: list[str] = []
        self.made = 0

    def read(self) -> str:
        return self.random.choice(list(self.memory))

    def written(self) -> str:
        """A name to write to: one of several of its memory, more often than not."""
        held = list(self.memory.values())
        several = [name for name, memory in self.memory.items() if memory >= 0 and held.count(memory) > 1]
        return self.random.choice(several) if several and self.random.random() < 0.8 else self.read()

    def beside(self, name: str) -> str:
        """Another name of the same memory, if there is one."""
        others = [
            other for other, memory in self.memory.items() if memory == self.memory[name] and other != name
        ]
        return self.random.choice(others) if others else name

    def new(self, memory: int) -> str:
        self.made += 1
        self.memory[f"v{self.made}"] = memory
        return f"v{self.made}"

    def line(self, text: str) -> None:
        if self.random.random() < 0.12:
            self.lines += ["with torch.no_grad():", "    " + text]
        else:
            self.lines.append(text)

    def filled(self, row: str, p: str) -> str:
        q = self.beside(p) if self.random.random() < 0.15 else self.read()
        return row.format(p=p, q=q, r=self.written() if "out=" in row else self.read())

    def statement(self, calls: bool) -> None:
        kind = self.random.choices(
            ("pure", "view", "write", "store", "grad", "sub"), (10, 3, 8, 3, 1.5, 2 if calls else 0)
        )[0]
        if kind == "pure":
            text = self.filled(self.random.choice(_PURE), self.read())
            self.line(f"{self.new(-1)} = {text}")
        elif kind == "view":
            p = self.read()
            text = self.filled(self.random.choice(_VIEWS), p)
            if self.memory[p] < 0:  # a result has memory of its own from here on
                self.memory[p] = 100 + self.made
            self.lines.append(f"{self.new(self.memory[p])} = {text}")
        elif kind == "write":
            p = self.written()
            text = self.filled(self.random.choice(_WRITES), p)
            seed = f"torch.manual_seed({len(self.lines)}); " if any(word in text for word in _RANDOM) else ""
            if p == "self.w" and self.random.random() < 0.9:
                self.lines += ["with torch.no_grad():", "    " + seed + text]
            else:
                self.line(seed + text)
        elif kind == "store":
            self.line(self.filled(self.random.choice(_STORES), self.read()))
        elif kind == "grad":
            fresh = [
                name for name, memory in self.memory.items() if memory < 0 and name[0] == "v"
            ]  # torch itself crashes on some views
            self.line(self.filled(self.random.choice(_GRADS), self.random.choice(fresh or ["self.w"])))
        else:
            text = f"self.sub({self.read()}, {self.read()})"
            self.lines.append(f"{self.new(-1)} = {text}")

    def returned(self, count: int) -> str:
        return ", ".join(self.random.sample(list(self.memory), min(count, len(self.memory))))


def _indented(lines: list[str], by: int) -> str:
    return "\n".join(" " * by + line for line in lines)


def write(random: Random) -> str:
    """The source of a program; `program(place, healed)` in it is a generator that yields what can be seen
    after each call.
    """
    pieces = random.randint(3, 5)

    def slice_of(piece: int) -> str:
        return f"memory{piece}" + random.choice(
            ("[0:4]", "[0:4]", "[2:6]", "[4:8]", "[::2]", "[0:4].clone()", "[0:4].view(2, 2).t().reshape(4)")
        )

    def somewhere() -> tuple[str, int]:
        piece = random.randrange(pieces)
        text = slice_of(piece)
        return text, -1 if text.endswith((".clone()", ".reshape(4)")) else piece

    held, a, b, k, sheld = (somewhere() for _ in range(5))
    names = {
        "x": -1,
        "a": a[1],
        "b": b[1],
        "self.w": -1,
        "self.buf": -1,
        "self.held": held[1],
        "state['k']": k[1],
    }
    if random.random() < 0.2:
        b, names["b"] = ("a", a[1]), a[1]
    if random.random() < 0.2:
        k, names["state['k']"] = ("b", b[1]), b[1]
    sub = _Body(random, {"p": 50, "q": 51, "self.held": 52, "self.buf": -1, "self.w": -1})
    for _ in range(random.randint(1, 4)):
        sub.statement(calls=False)
    own = _Body(random, names)
    for _ in range(random.randint(3, 9)):
        own.statement(calls=True)
    if random.random() < 0.15:
        spot = random.randint(0, len(own.lines))
        while spot < len(own.lines) and own.lines[spot].startswith(" "):
            spot += 1
        own.lines.insert(spot, f"if self.calls == {random.randint(1, CALLS)}: raise ValueError('half-way')")
    mode = random.choices(
        ("contextlib.nullcontext()", "torch.no_grad()", "torch.inference_mode()"), (6, 3, 1)
    )[0]
    hooks = []
    if random.random() < 0.3:
        what = random.choice(
            (
                "out * model.held",
                "out + model.sub.held",
                "out.mul_(model.held)",
                "out.data.add_(model.held) and None",
                "model.held",
            )
        )
        hooks.append(f"model.sub.register_forward_hook(lambda m, given, out: {what})")
    if random.random() < 0.2:
        what = random.choice(
            (
                "(given[0] * model.held, given[1])",
                "(given[1], given[0])",
                "given[0].data.add_(model.held) and None",
            )
        )
        hooks.append(f"model.sub.register_forward_pre_hook(lambda m, given: {what})")
    if random.random() < 0.1:
        hooks.append(
            "model.sub.register_full_backward_hook(lambda m, gi, go: seen.extend(g for g in gi if g is not "
            "None))"
        )
    if random.random() < 0.15:
        hooks.append("model.register_forward_hook(lambda m, given, out: (out[0] * m.held, *out[1:]))")
    if random.random() < 0.2:
        hooks.append("b.requires_grad_() if b.is_leaf else None")
    after = []
    grads = mode.startswith("contextlib")
    if grads and random.random() < 0.8:
        twice = random.random() < 0.15
        after += [
            "losses = ((each * (each if each.requires_grad else 1)).sum().to(place(0)) for each in out)",
            "loss = sum(losses, torch.zeros((), device=place(0)))",
        ]
        if twice:
            after += [
                "leaves = [each for each in model.parameters() if each.requires_grad]",
                "if loss.requires_grad:",
                "    found = torch.autograd.grad(loss, leaves, create_graph=True, allow_unused=True)",
                "    loss = sum(each.pow(2).sum().to(place(0)) for each in found if each is not None)",
            ]
        after.append("if loss.requires_grad: loss.backward()")
        if random.random() < 0.4:
            after.append(
                random.choice(
                    ("step.step()", "step.step(); step.zero_grad()", "average.update_parameters(model)")
                )
            )
    for _ in range(random.randint(0, 2)):
        target = random.choice(
            ("a", "b", "state['k']", *(f"memory{n}" for n in range(pieces)), "model.held", "model.buf")
        )
        change = random.choice(
            (".data.mul_(0.75)", ".data.add_(0.25)", ".data[1] = 0.5", ".detach().sub_(0.125)")
        )
        after.append(target + change)
    if random.random() < 0.06:
        after.append("if call == 2: model = copy.deepcopy(model)")
    made = random.choices(
        ("model", "torch.compile(model, backend='eager')", "nn.DataParallel(model, device_ids=[0])"),
        (40, 2, 1),
    )[0]
    method = "step_by" if random.random() < 0.15 and made == "model" else ""
    before = _indented([f"memory{n} = memory({n}, place({n}))" for n in range(pieces)], 4)
    far = pieces
    return f"""{_HEAD}
class Sub(nn.Module):
    def __init__(self, held, device):
        super().__init__()
        self.held = held
        self.w = nn.Parameter(memory(7, device)[0:4].clone())
        self.lin = nn.Linear(4, 4, device=device)
        with torch.no_grad():
            self.lin.weight.copy_(torch.arange(16.0).view(4, 4) * 0.07 - 0.5)
            self.lin.bias.copy_(torch.arange(4.0) * 0.3)
        self.register_buffer("buf", memory(8, device)[0:4].clone())
        self.register_buffer("var", memory(9, device)[0:4].abs() + 1)
        self.idx, self.perm = torch.tensor([2, 0, 3, 0], device=device), torch.tensor([3, 1, 0, 2], device=device)
        self.mask, self.s = torch.tensor([True, False, True, False], device=device), torch.tensor(0.7, device=device)
        self.kept, self.calls = [], 0

    def forward(self, p, q):
        state = {{"k": self.held}}
{_indented(sub.lines, 8)}
        return {random.choice(list(sub.memory))}

class Model(Sub):
    def __init__(self, held, device, sub):
        super().__init__(held, device)
        self.sub = sub

    def forward(self, x, a, b, state):
        self.calls += 1
        self.kept[:] = self.kept[-3:]
{_indented(own.lines, 8)}
        return ({own.returned(random.randint(1, 3))},)

    def step_by(self, *given):
        return self.forward(*given)

def program(place, heal, see):
{before}
    x, a = memory(6, place(0))[0:4], {a[0]}
    b = {b[0]}
    state = {{"k": {k[0]}}}
    seen[:] = []
    model = Model({held[0]}, place({far}), Sub({sheld[0]}, place({far + 1})))
    step = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    average = torch.optim.swa_utils.AveragedModel(model) if {"average" in " ".join(after)} else None
{_indented(hooks, 4)}
    called = heal({made})
    with {mode}:
        for call in range({CALLS}):
            try:
                out = called{"." + method if method else ""}(x.clone(), a, b, state)
            except ValueError:
                out = ()
{_indented(["if True:", *("    " + line for line in after or ["pass"])], 12)}
            see(out=out, a=a, b=b, x=x, state=state, model=model, seen=seen{"".join(f", m{n}=memory{n}" for n in range(pieces))})
            if call == 2 and model is not called: called = model if {"deepcopy" in " ".join(after)} else called

seen = []
"""
