"""Programs drawn at random for `static-claims`.

Each is a package of three files whose functions, classes and modules hand tensors of two by two to each other.

Must guarantee: the same seed draws the same program; a program has no more than a few dozen statements, and
ends. A line `note(NAME)` stands wherever a name has got a value, and `ENTER` where a function begins.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

ENTER = '"entered"'
"""The first statement of every function; another takes its place when the program runs."""


@dataclass(slots=True)
class Block:
    """A statement with others inside."""

    head: str
    body: list[Node]


Node = str | Block


def text_of(nodes: Sequence[Node], indent: int = 0) -> str:
    """The statements as source."""
    lines = []
    for node in nodes:
        if isinstance(node, Block):
            lines += [" " * indent + node.head, text_of(node.body, indent + 4).rstrip("\n")]
        else:
            lines.append(" " * indent + node)
    return "\n".join(lines or [" " * indent + "pass"]) + "\n"


@dataclass(frozen=True, slots=True)
class Program:
    """The files of a package, by the names of their modules; `main` has the class `Whole`."""

    files: dict[str, list[Node]]

    def text(self, name: str) -> str:
        """A file's source."""
        return text_of(self.files[name])


@dataclass(frozen=True, slots=True)
class Function:
    """Something that can be called with so many tensors."""

    name: str
    least: int
    most: int
    gives: str = "tensor"
    """`tensor`, `pair` (a tuple of two), `list`, `dict` with the keys one and two, `scalar`, `nothing`."""
    named: tuple[str, ...] = ()
    """The names of its parameters, where they may be given by name."""
    takes_device: bool = False


@dataclass(frozen=True, slots=True)
class Scope:
    """What the statements of a function can use."""

    tensors: tuple[str, ...]
    scalars: tuple[str, ...] = ()
    functions: tuple[Function, ...] = ()
    flags: tuple[str, ...] = ()
    devices: tuple[str, ...] = ()
    giveable: tuple[str, ...] = ()
    """Attributes that may be given a tensor: `self.state`."""
    lists: tuple[str, ...] = ()
    own: str = "abcd"
    """The first letters of its own names."""
    is_module: bool = False
    may_send: bool = False
    """Whether it may send tensors elsewhere by `.data`, which is not followed out of functions."""

    def with_tensors(self, *names: str) -> Scope:
        """The same with more tensors."""
        return replace(self, tensors=tuple(dict.fromkeys((*self.tensors, *names))))


_DEEPEST = 2


@dataclass(slots=True)
class Draw:
    """Draws parts of a program."""

    chance: random.Random
    known: list[Function] = field(default_factory=list)
    """Functions of all files so far."""

    def one(self, *choices: str) -> str:
        """One of these."""
        return self.chance.choice(choices)

    def maybe(self, share: float) -> bool:
        """True that often."""
        return self.chance.random() < share

    # Expressions

    def place(self, scope: Scope) -> str:
        """How a call that makes a tensor says where."""
        places = ["", "", ', device="cuda:0"', ', device="cuda:1"', ', device="cpu"', ", device=None"]
        places += [f", device={self.chance.choice(scope.tensors)}.device"] * 3
        places += [f", device={each}" for each in scope.devices]
        if scope.is_module:
            places += [", device=next(self.parameters()).device"]
        return self.chance.choice(places)

    def goal(self, scope: Scope) -> str:
        """What a tensor is sent to."""
        other = self.chance.choice(scope.tensors)
        goals = [
            other,
            f"{other}.device",
            f"device={other}.device",
            "torch.float32",
            '"cuda:1"',
            "'cpu'",
            "0",
        ]
        return self.chance.choice([*goals, f"{other}.dtype", *scope.devices])

    def call(self, scope: Scope, kinds: tuple[str, ...] = ("tensor",)) -> str | None:
        """A call of a function of the program that gives one of these kinds."""
        fits = [each for each in scope.functions if each.gives in kinds]
        if not fits:
            return None
        function = self.chance.choice(fits)
        count = self.chance.randint(function.least, function.most)
        given = [self.chance.choice(scope.tensors) for _ in range(count)]
        if function.named and given and self.maybe(0.3):
            given[-1] = f"{function.named[count - 1]}={given[-1]}"
        if function.takes_device and self.maybe(0.6):
            given.append(self.place(scope).removeprefix(", ") or "device=None")
        return f"{function.name}({', '.join(given)})"

    def tensor(self, scope: Scope, depth: int = 0) -> str:
        """An expression of a tensor of two by two."""
        one, two = (self.chance.choice(scope.tensors) for _ in range(2))
        place, again = self.place(scope), self.chance.choice(scope.tensors)
        if depth < _DEEPEST and self.maybe(0.25):
            one = f"({self.tensor(scope, depth + 1)})"
        flag = self.chance.choice(scope.flags) if scope.flags else f"{one}.is_cuda"
        scalar = self.scalar(scope)
        forms: list[Callable[[], str]] = [
            lambda: f"torch.{self.one('zeros', 'ones', 'rand')}(2, 2{place})",
            lambda: f"torch.full((2, 2), 0.5{place})",
            lambda: f"torch.tensor([[1.0, 2.0], [3.0, 4.0]]{place})",
            lambda: f"torch.Tensor([[1.0, 2.0], [3.0, {scalar}]])",
            lambda: f"torch.tensor([[1.0, {scalar}], [3.0, 4.0]]{place})",
            lambda: f"torch.arange(4.0{place}).view(2, 2)",
            lambda: f"{one} {self.one('+', '*', '-', '@', '/')} {two}",
            lambda: f"{one} {self.one('+', '*')} {scalar}",
            lambda: f"{scalar} * {one}",
            lambda: f"torch.cat([{one}, {two}])[:2]",
            lambda: f"torch.stack(({one}, {two}))[{self.one('0', '-1', '1')}]",
            lambda: (
                f"{one}.{self.one('float()', 'clone()', 't()', 'cpu()', 'abs()', 'contiguous()', 'detach()')}"
            ),
            lambda: f"{one}.{self.one('unsqueeze(0)[0]', 'view(4).view(2, 2)', 'sum(0)[None].repeat(2, 1)')}",
            lambda: f"{one}.to({self.goal(scope)})",
            lambda: f"{one}.type_as({two})",
            lambda: f"torch.{self.one('zeros_like', 'rand_like')}({one}{place})",
            lambda: f"{one}.new_zeros(2, 2{place})",
            lambda: f"torch.where({one} > 0, {two}, {self.one(again, scalar)})",
            lambda: f"{one}.{self.one('add', 'mul', 'maximum')}({two})",
            lambda: f"torch.{self.one('add', 'mul', 'minimum', 'matmul')}({one}, {two})",
            lambda: f"{one}.masked_fill({two} > 0.5, 0.0)",
            lambda: f"{one}.max(0).values[None].repeat(2, 1)",
            lambda: f"torch.max({one}, {two})",
            lambda: f"{one}[torch.tensor([1, 0]{place})]",
            lambda: f"{one}.index_select(0, torch.arange(2{place}))",
            lambda: f"{one} if {flag} else {two}",
            lambda: f"{one} if {again} is not None else {two}",
            lambda: f"torch.stack([part * 2 for part in ({one}, {two})]).sum(0)",
            lambda: f"sum([{one}, {two}])",
            lambda: f"(lambda t, u={two}: t * u)({one})",
            lambda: f"{one}.sum().expand(2, 2)",
            lambda: f"F.relu({one})",
            lambda: f"F.pad({one}, (0, 0))",
            lambda: f"F.linear({one}, {two})",
            lambda: f"torch.einsum('ij,jk->ik', {one}, {two})",
            lambda: f"copy.deepcopy({one}.detach())",
            lambda: f"torch.as_tensor({one}{place})",
            lambda: f"getattr({one}, 'T')",
            lambda: f"nn.Linear(2, 2{place})({one})",
            lambda: f"nn.Linear(2, 2).to({two}.device)({one})",
            lambda: f"nn.functional.softmax({one}, dim=-1)",
            lambda: f"torch.broadcast_tensors({one}, {two})[0]",
            lambda: f"torch.chunk({one}, 2)[0].repeat(2, 1)",
            lambda: f"reduce(torch.add, [{one}, {two}])",
            lambda: f"max([{one}, {two}], key=torch.sum)",
            lambda: f"({one}, {two})[{self.one('0', '1')}]",
            lambda: f"{{'one': {one}, 'two': {two}}}['one']",
            lambda: f"[{one}, {two}].pop()",
            lambda: f"dict(one={one}).get('one', {two})",
            lambda: f"next(iter([{one}, {two}]))",
            lambda: f"list(map(torch.abs, [{one}]))[0]",
        ]
        if scope.lists:
            name = self.chance.choice(scope.lists)
            forms += [
                lambda: f"{name}[{self.one('0', '-1')}]",
                lambda: f"torch.stack(list({name})).sum(0)",
            ] * 2
        called = self.call(scope)
        if called is not None and self.maybe(0.45):
            return called
        pair = self.call(scope, ("pair", "list"))
        if pair is not None and self.maybe(0.1):
            return f"{pair}[{self.one('0', '-1')}]"
        table = self.call(scope, ("dict",))
        if table is not None and self.maybe(0.1):
            return f"{table}['{self.one('one', 'two')}']"
        found: str = self.chance.choice(forms)()
        return found

    def scalar(self, scope: Scope) -> str:
        """An expression of a number, or of a tensor of no dimensions."""
        some = [
            "0.5",
            "2",
            f"torch.tensor(0.5{self.place(scope)})",
            f"{self.chance.choice(scope.tensors)}.mean()",
        ]
        return self.chance.choice([*some, *scope.scalars])

    def flag(self, scope: Scope) -> str:
        """A condition."""
        one, two = (self.chance.choice(scope.tensors) for _ in range(2))
        asked = [
            f"{one}.sum() > {two}.mean()",
            f"{one}.is_cuda",
            f"{one}.device == {two}.device",
            f"{one} is None",
        ]
        asked += [f"{one} is not None", f"isinstance({one}, torch.Tensor)", "torch.cuda.is_available()"]
        asked += [f"{one}.device.type == 'cuda'", f"{one} is {two}", *scope.flags, *scope.flags, *scope.flags]
        asked += [f"not {each}" for each in scope.flags]
        return self.chance.choice(asked)

    # Statements

    def body(self, scope: Scope, most: int, depth: int = 0) -> tuple[list[Node], Scope]:
        """Statements, and what can be used after them."""
        found: list[Node] = []
        for _ in range(self.chance.randint(1, most)):
            made, scope = self.statement(scope, depth)
            found += made
        return found, scope

    def target(self, scope: Scope) -> str:
        """A name that gets a tensor."""
        if scope.giveable and self.maybe(0.12):
            return self.chance.choice(scope.giveable)
        own = [each for each in scope.tensors if "." not in each and "[" not in each and each[0].islower()]
        name: str = self.chance.choice([*scope.own, *scope.own, *own])
        return name

    def noted(self, name: str) -> list[Node]:
        """A note of a name, most times."""
        return [f"note({name})"] if self.maybe(0.8) else []

    def statement(self, scope: Scope, depth: int) -> tuple[list[Node], Scope]:
        """One statement, or a few that belong together."""
        forms = [self._plain] * 14 + [self._augmented, self._several, self._in_place, self._list, self._list]
        forms += [self._table, self._table, self._record, self._record, self._call_alone, self._walrus]
        if depth < _DEEPEST:
            forms += [
                self._if,
                self._if,
                self._for,
                self._while,
                self._try,
                self._with,
                self._inner,
                self._match,
            ]
            forms += [self._object, self._object, self._layer]
        return self.chance.choice(forms)(scope, depth)

    def _given(self, scope: Scope, name: str) -> Scope:
        return scope if "[" in name else scope.with_tensors(name)

    def _plain(self, scope: Scope, depth: int) -> tuple[list[Node], Scope]:
        name, value = self.target(scope), self.tensor(scope)
        shape = self.one(f"{name} = {value}", f"{name} = {value}", f"{name}: torch.Tensor = {value}")
        if "." in name or self.maybe(0.8):
            shape = f"{name} = {value}"
        return [shape, *self.noted(name)], self._given(scope, name)

    def _augmented(self, scope: Scope, depth: int) -> tuple[list[Node], Scope]:
        name = self.chance.choice(scope.tensors)
        return [f"{name} {self.one('+=', '*=', '-=')} {self.tensor(scope)}", *self.noted(name)], scope

    def _walrus(self, scope: Scope, depth: int) -> tuple[list[Node], Scope]:
        name, other = self.chance.choice(scope.own), self.chance.choice(scope.own)
        value = f"({name} := {self.tensor(scope)}) + {name}"
        return [f"{other} = {value}", *self.noted(name), *self.noted(other)], scope.with_tensors(name, other)

    def _several(self, scope: Scope, depth: int) -> tuple[list[Node], Scope]:
        one, two = self.target(scope), self.chance.choice(scope.own)
        three = self.chance.choice(scope.tensors)
        values = [self.tensor(scope) for _ in range(3)]
        pair = self.call(scope, ("pair",)) or f"({values[0]}, {values[1]})"
        line = self.one(
            f"{one}, {two} = {values[0]}, {values[1]}",
            f"{one}, {two} = {pair}",
            f"{one} = {two} = {values[0]}",
            f"{one}, *rest, {two} = {values[0]}, {values[1]}, {values[2]}",
            f"({one}, {two}), rest = ({values[0]}, {values[1]}), {values[2]}",
            f"_, {one}, {two} = *{three}.shape[:1], {values[0]}, {values[1]}",
            f"{one}, {two} = [{values[0]}, {values[1]}]",
            f"{one}, {two} = (part for part in ({values[0]}, {values[1]}))",
            f"{one}, {two} = torch.stack(({values[0]}, {values[1]}))",
        )
        return [line, *self.noted(one), *self.noted(two)], self._given(scope, one).with_tensors(two)

    def _in_place(self, scope: Scope, depth: int) -> tuple[list[Node], Scope]:
        name, value = self.chance.choice(scope.tensors), self.tensor(scope)
        line = self.one(
            f"{name}.{self.one('add_', 'mul_', 'copy_')}({value})",
            f"{name}[0] = ({value})[0]",
            f"{name}[{name} > 0.5] = 0.0",
            f"{name}.fill_(1.0)",
            f"{name}.data = {value}" if scope.may_send else f"{name} = {value}",
            f"torch.add({name}, {value}, out={name})",
        )
        return [line, *self.noted(name)], scope

    def _list(self, scope: Scope, depth: int) -> tuple[list[Node], Scope]:
        one, two, three = (self.tensor(scope) for _ in range(3))
        name = self.chance.choice(scope.own)
        found: list[Node] = [
            self.one("items = []", f"items = [{one}]", f"items = [{one}, {two}]", f"items = [{one}] * 2")
        ]
        grown: list[Node] = [
            f"items.append({three})",
            f"items += [{three}]",
            f"items.extend([{three}, {one}])",
        ]
        grown += [f"items = items + [{three}]", f"items = [{three}, *items]", f"items.insert(0, {three})"]
        grown += ["other = items", "items = [part * 1 for part in items]", "items = list(reversed(items))"]
        grown += [
            "items = sorted(items, key=torch.sum)",
            f"def more(): items.append({three})",
            "items = tuple(items)",
        ]
        for each in self.chance.sample(grown, self.chance.randint(1, 3)):
            if self.maybe(0.25):
                found.append(Block(f"if {self.flag(scope)}:", [each]))
            elif self.maybe(0.3):
                found.append(Block("for _ in range(2):", [each]))
            else:
                found.append(each)
        found += ["more()"] if any(each == grown[-2] for each in found) else []
        found += ["other[0] = " + two] if "other = items" in found and self.maybe(0.5) else []
        used = self.one(
            "items[0]", "items[-1]", "torch.cat(items)[:2]", "torch.stack(list(items)).sum(0)", "items[1:][0]",
            "[*items][0]", "sum(items)", "next(iter(items))", "items.pop()", "reduce(torch.add, items)",
        )  # fmt: skip
        if self.maybe(0.3):
            loop = self.one(
                "for part in items:",
                "for _, part in enumerate(items):",
                f"for part, _ in zip(items, [{one}]):",
            )
            found += [f"{name} = {two}", Block(loop, [f"{name} = {self.one('part', f'{name} + part')}"])]
        else:
            found.append(f"{name} = {used}")
        return [*found, *self.noted(name)], scope.with_tensors(name)

    def _table(self, scope: Scope, depth: int) -> tuple[list[Node], Scope]:
        one, two, three = (self.tensor(scope) for _ in range(3))
        name = self.chance.choice(scope.own)
        whole = self.call(scope, ("dict",)) or "{}"
        found: list[Node] = [
            self.one(f"kept = {{'one': {one}}}", f"kept = dict(one={one})", "kept = {}", f"kept = {whole}"),
            self.one(f"kept['one'] = {one}", f"kept['two'] = {two}", f"kept.update(one={two}, two={one})"),
        ]
        changes: list[Node] = [
            Block(f"if {self.flag(scope)}:", [f"kept['one'] = {three}"]),
            "other = kept", f"other['one'] = {three}", f"kept.update(one={three})", f"kept |= {{'one': {three}}}",
            Block("for name in ('one', 'two'):", [f"kept[name] = {three}"]),
            Block("def change():", [f"kept['one'] = {three}"]), "change()",
            Block("for _ in range(2):", [f"kept['one'] = kept['one'] + {three}"]),
            f"kept.setdefault('one', {three})", "kept = dict(kept)", "kept = {**kept}",
            f"kept = {{key: part * {self.scalar(scope)} for key, part in kept.items()}}",
            f"kept = {{**kept, 'one': {three}}}", "del kept['one']", "change_table(kept)",
        ]  # fmt: skip
        found += self.chance.sample(changes, self.chance.randint(0, 3))
        found = ["other = {}", *found] if "other = kept" not in found else found
        used = self.one(
            "kept['one']", "kept['two']", "kept.get('one')", "kept.pop('one')", "list(kept.values())[0]"
        )
        if self.maybe(0.2):
            found += [f"{name} = {two}", Block("for key, part in kept.items():", [f"{name} = part"])]
        else:
            found.append(f"{name} = {used}")
        return [*found, *self.noted(name)], scope.with_tensors(name)

    def _record(self, scope: Scope, depth: int) -> tuple[list[Node], Scope]:
        one, two, three = (self.tensor(scope) for _ in range(3))
        name = self.chance.choice(scope.own)
        found: list[Node] = [
            self.one(
                f"pair = Pair({one}, second={two})", f"pair = Pair({one})", f"pair = Pair(second={two}, first={one})",
                f"pair = More({one}, third={two})", f"pair = Pair.of({one}, {two})", f"pair = Couple({one}, {two})",
            )
        ]  # fmt: skip
        changes: list[Node] = [
            f"pair.first = {three}", "other = pair", f"other.first = {three}", "pair = swapped(pair)", "swapped(pair)",
            Block(f"if {self.flag(scope)}:", [f"pair.second = {three}"]), f"pair = replace(pair, first={three})",
            Block(f"if {self.flag(scope)}:", [f"pair = Pair({three}, {one})"]), "setattr(pair, 'first', pair.second)",
            Block("for _ in range(3):", ["pair = swapped(pair)", f"pair.first = {three}"]), "pair.swap()",
            "pairs = [pair]", "pair = pairs[0]", Block("for each in [pair]:", [f"each.first = {three}"]),
            Block("def change():", [f"pair.second = {three}"]), "change()",
        ]  # fmt: skip
        found += self.chance.sample(changes, self.chance.randint(0, 3))
        found.append(
            f"{name} = {self.one('pair.first', 'pair.second', 'pair.both', 'pair.first', 'pair.sum()')}"
        )
        return [*found, *self.noted(name)], scope.with_tensors(name)

    def _object(self, scope: Scope, depth: int) -> tuple[list[Node], Scope]:
        one, two = self.tensor(scope), self.tensor(scope)
        name = self.chance.choice(scope.own)
        found: list[Node] = [f"kept_one = {self.one('Kept', 'KeptMore')}({one})"]
        found += self.chance.sample(
            [
                f"kept_one.given = {two}", f"kept_one.put({two})", "kept_one.clear()", "kept_one.rows = kept_one.given",
                Block(f"if {self.flag(scope)}:", [f"kept_one.given = {two}"]), "other_one = kept_one",
                f"other_one.given = {two}",
            ],
            self.chance.randint(0, 2),
        )  # fmt: skip
        used = self.one("given", "rows", "last", "twice", "scaled(x0)", "fixed()", "of_class()", "LEVEL")
        found += [f"x0 = {self.chance.choice(scope.tensors)}", f"{name} = kept_one.{used}"]
        return [*found, *self.noted(name)], scope.with_tensors(name)

    def _layer(self, scope: Scope, depth: int) -> tuple[list[Node], Scope]:
        one = self.chance.choice(scope.tensors)
        name = self.chance.choice(scope.own)
        made = self.one(
            "nn.Linear(2, 2)", "Scale()", "nn.LayerNorm(2)", "nn.Sequential(nn.Linear(2, 2), nn.ReLU())"
        )
        found: list[Node] = [f"layer = {made}"]
        found += self.chance.sample(
            [
                f"layer.to({one}.device)", "layer = layer.cuda()", f"layer = layer.to({self.goal(scope)})",
                Block(f"if {self.flag(scope)}:", ["layer = layer.to('cuda:1')"]), "layer.cpu()",
            ],
            self.chance.randint(0, 2),
        )  # fmt: skip
        used = self.one(
            f"layer({one})", f"{one} * next(layer.parameters()).sum()", f"layer({one}.to({self.goal(scope)}))"
        )
        found.append(f"{name} = {used}")
        return [*found, *self.noted(name)], scope.with_tensors(name)

    def _call_alone(self, scope: Scope, depth: int) -> tuple[list[Node], Scope]:
        called = self.call(scope, ("nothing",))
        return ([called], scope) if called is not None else self._plain(scope, depth)

    def _if(self, scope: Scope, depth: int) -> tuple[list[Node], Scope]:
        found: list[Node] = []
        words = ("if", "elif", "else")[: self.chance.randint(1, 3)]
        if len(words) == 2 and self.maybe(0.5):
            words = ("if", "else")
        for word in words:
            inside, _ = self.body(scope, 3, depth + 1)
            if self.maybe(0.05):
                inside.append(self.leave(scope))
            found.append(Block("else:" if word == "else" else f"{word} {self.flag(scope)}:", inside))
        return found, scope

    def leave(self, scope: Scope) -> str:
        """A statement that ends the way."""
        return self.one("raise ValueError", "return LEFT")

    def _for(self, scope: Scope, depth: int) -> tuple[list[Node], Scope]:
        one, two = (self.chance.choice(scope.tensors) for _ in range(2))
        head, inner = self.chance.choice(
            [
                ("for _ in range(2):", scope),
                (f"for part in ({one}, {two}):", scope.with_tensors("part")),
                (f"for part in {one}.unsqueeze(0):", scope.with_tensors("part")),
                (f"for part, other in [({one}, {two})]:", scope.with_tensors("part", "other")),
                (f"for place, part in enumerate([{one}, {two}]):", scope.with_tensors("part")),
                (f"for part, _ in zip([{one}], ({two},)):", scope.with_tensors("part")),
            ]
        )
        inside, _ = self.body(inner, 4, depth + 1)
        if self.maybe(0.3):
            inside.insert(
                self.chance.randint(0, len(inside)),
                Block(f"if {self.flag(inner)}:", [self.one("break", "continue")]),
            )
        found: list[Node] = [Block(head, inside)]
        if self.maybe(0.15):
            found.append(Block("else:", self.body(scope, 2, depth + 1)[0]))
        return found, scope

    def _while(self, scope: Scope, depth: int) -> tuple[list[Node], Scope]:
        inside, _ = self.body(scope, 3, depth + 1)
        return [
            f"turns{depth} = 0",
            Block(f"while turns{depth} < 2:", [f"turns{depth} += 1", *inside]),
        ], scope

    def _try(self, scope: Scope, depth: int) -> tuple[list[Node], Scope]:
        found: list[Node] = [Block("try:", self.body(scope, 3, depth + 1)[0])]
        found.append(Block("except RuntimeError:", self.body(scope, 2, depth + 1)[0]))
        if self.maybe(0.3):
            found.append(Block("finally:", self.body(scope, 1, depth + 1)[0]))
        return found, scope

    def _with(self, scope: Scope, depth: int) -> tuple[list[Node], Scope]:
        inside, _ = self.body(scope, 3, depth + 1)
        one = self.chance.choice(scope.tensors)
        heads = (
            "torch.no_grad()",
            "torch.device('cuda:1')",
            f"{one}.device",
            "torch.cuda.device(1)",
            "nothing_there()",
        )
        return [Block(f"with {self.one(*heads)}:", inside)], scope

    def _inner(self, scope: Scope, depth: int) -> tuple[list[Node], Scope]:
        name = self.chance.choice(scope.own)
        own, two = "t", self.chance.choice(scope.tensors)
        inner = replace(scope.with_tensors(own), own="tuv", giveable=(), may_send=False)
        inside, _ = self.body(inner, 2, depth + 1)
        if self.maybe(0.15) and "." not in name:
            inside = [f"nonlocal {name}", f"{name} = {self.tensor(inner)}", *inside]
            before: list[Node] = [f"{name} = {two}"]
        else:
            before = []
        given = self.one("t", "t, u=None", f"t, u={two}", "*several")
        inside = [f"t = {two}", *inside] if given == "*several" else inside
        inside = ["several = list(several)", *inside] if given == "*several" else inside
        returned = self.one("t", two, f"t * {two}", f"t.to({two}.device)")
        called = self.chance.choice(scope.tensors)
        outcome = [f"{name} = inner({called})", *self.noted(name)]
        if self.maybe(0.2):
            outcome = [f"{name} = passed_on(inner, {called})", *self.noted(name)]
        return [
            *before,
            Block(f"def inner({given}):", [ENTER, *inside, f"return {returned}"]),
            *outcome,
        ], scope.with_tensors(name)

    def _match(self, scope: Scope, depth: int) -> tuple[list[Node], Scope]:
        name = self.chance.choice(scope.own)
        one, two = self.chance.choice(scope.tensors), self.tensor(scope)
        inside: list[Node] = [
            Block("case (first, second):", [f"{name} = first"]),
            Block("case _:", [f"{name} = {self.tensor(scope)}"]),
        ]
        return [
            f"{name} = {one}",
            Block(f"match ({one}, {two}):", inside),
            *self.noted(name),
        ], scope.with_tensors(name)

    # Functions and classes

    def function(self, name: str, scope: Scope, owner: str = "") -> list[Node]:
        """A function of one to three tensors; it becomes known."""
        count = self.chance.randint(1, 2)
        names = ("p", "q")[:count]
        least = count
        shown = list(names)
        if count == 2 and self.maybe(0.4):
            least, shown[1] = (
                1,
                f"q{self.one('=None', ': torch.Tensor | None = None', ': Optional[torch.Tensor] = None')}",
            )
        if self.maybe(0.6):
            shown[0] = "p: torch.Tensor"
        devices = ("device",) if self.maybe(0.3) else ()
        if devices:
            shown.append("device=None")
        gives = self.one("tensor", "tensor", "tensor", "tensor", "pair", "list", "dict", "nothing", "scalar")
        sure = names if least == count else names[:1]
        inner = replace(
            scope.with_tensors(*sure),
            own="rstw",
            devices=devices,
            flags=scope.flags,
            is_module=scope.is_module,
        )
        body: list[Node] = [ENTER]
        if least < count:
            body += [
                self.chance.choice(
                    [
                        Block("if q is None:", ["q = p"]),
                        Block("if q is None:", ["return " + self.left(gives, "p")]),
                    ]
                )
            ]
            inner = inner.with_tensors("q")
        made, after = self.body(inner, 3, 1)
        body += [_left_as(each, self.left(gives, "p")) for each in made]
        one, two = self.chance.choice(after.tensors), self.tensor(after)
        body.append(
            {
                "tensor": f"return {self.one(one, two)}",
                "pair": f"return {one}, {two}",
                "list": f"return [{one}, {two}]",
                "dict": f"return {{'one': {one}, 'two': {two}}}",
                "nothing": "return None",
                "scalar": f"return ({one}).mean()",
            }[gives]
        )
        prefix = "self, " if owner == "self" else "cls, " if owner == "cls" else ""
        at = {"self": "self.", "cls": "self.", "static": "self."}.get(owner, "")
        self.known.append(Function(f"{at}{name}", least, count, gives, names, bool(devices)))
        heads: list[Node] = (
            [{"cls": "@classmethod", "static": "@staticmethod"}[owner]] if owner in ("cls", "static") else []
        )
        if not owner and self.maybe(0.15):
            heads = [self.one("@torch.no_grad()", "@wrapped")]
        return [*heads, Block(f"def {name}({prefix}{', '.join(shown)}):", body)]

    def left(self, gives: str, name: str) -> str:
        """What a function returns that is left early."""
        return {
            "pair": f"{name}, {name}", "list": f"[{name}, {name}]", "dict": f"{{'one': {name}, 'two': {name}}}",
            "nothing": "None", "scalar": f"{name}.mean()",
        }.get(gives, name)  # fmt: skip


def _left_as(node: Node, value: str) -> Node:
    if isinstance(node, Block):
        return Block(node.head, [_left_as(each, value) for each in node.body])
    return node.replace("return LEFT", f"return {value}")


_IMPORTS = """import copy
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from typing import Optional

import torch
import torch.nn.functional as F
from torch import nn
"""
_RECORDS = """
def nothing_there():
    return torch.no_grad()


def passed_on(function, *args, **kwargs):
    return function(*args, **kwargs)


def wrapped(function):
    def inner(*args, **kwargs):
        return function(*args, **kwargs)
    return inner


def change_table(table):
    table["one"] = torch.ones(2, 2)


def swapped(pair):
    pair.first, pair.second = pair.second, pair.first
    return pair


@dataclass
class Pair:
    first: torch.Tensor
    second: torch.Tensor = None

    @classmethod
    def of(cls, one, two):
        return cls(two, one)

    @property
    def both(self):
        return self.first + self.second

    def swap(self):
        self.first, self.second = self.second, self.first

    def sum(self):
        return self.first * 1


@dataclass
class More(Pair):
    third: torch.Tensor = None


class Couple:
    def __init__(self, first, second):
        self.first, self.second = second, first

    both = property(lambda self: self.second)

    def swap(self):
        self.first = self.second

    def sum(self):
        return self.second
"""
_ON_ZERO, _ON_ONE = ', device="cuda:0"', ', device="cuda:1"'


def program(seed: int) -> Program:
    """The program of a seed."""
    draw = Draw(random.Random(seed))
    other: list[Node] = [*_lines(_IMPORTS), *_lines(_RECORDS)]
    other.append(f"TABLE = torch.ones(2, 2{draw.one('', '', _ON_ONE)})")
    draw.known += [Function("passed_on", 2, 2, "never")]
    shared = Scope(("p",), functions=(), flags=("p is None", "True"))
    for number in range(draw.chance.randint(1, 3)):
        scope = replace(shared, functions=tuple(draw.known), tensors=("TABLE",))
        other += draw.function(f"far{number}", scope)
    far = tuple(draw.known)
    base = _classes(draw, far)
    main = _main(draw, far, base[1])
    star = draw.maybe(0.3)
    how = "from .other import *" if star else None
    names = [each.name for each in far if each.name.startswith("far")]
    names += [
        "TABLE",
        "Pair",
        "More",
        "Couple",
        "swapped",
        "passed_on",
        "change_table",
        "nothing_there",
        "wrapped",
    ]
    take = how or f"from .other import {', '.join(names)}"
    return Program(
        {
            "other": other,
            "classes": [*_lines(_IMPORTS), take, *base[0]],
            "main": [*_lines(_IMPORTS), take, "from .classes import Base, Kept, KeptMore, Scale", *main],
        }
    )


def _lines(text: str) -> list[Node]:
    return [each for each in text.strip("\n").split("\n")]


def _classes(draw: Draw, far: tuple[Function, ...]) -> tuple[list[Node], tuple[Function, ...]]:
    """The second file: a kept object, a part with weights, and a base class of the module."""
    start = Scope(("TABLE",), functions=far)
    kept_scope = replace(start, tensors=("TABLE", "given"), flags=("True",))
    methods = replace(
        start, tensors=("t", "self.given", "self.rows", "TABLE"), giveable=("self.given", "self.last")
    )
    kept: list[Node] = [
        "LEVEL = torch.ones(2, 2)",
        Block(
            "def __init__(self, given):",
            [
                ENTER, f"self.given = {draw.one('given', draw.tensor(kept_scope))}",
                f"self.rows = {draw.tensor(kept_scope)}", "self._fill()",
            ],
        ),
        Block("def _fill(self):", [ENTER, f"self.last = {draw.one('torch.zeros(2, 2)', 'self.given', 'self.rows * 1')}"]),
        Block("def put(self, given):", [ENTER, f"self.given = {draw.one('given', 'given + self.given', 'given.to(self.rows)')}"]),
        Block("def clear(self):", [ENTER, f"self.last = {draw.one('None', 'self.given', 'torch.ones(2, 2)')}"]),
        "@property",
        Block("def twice(self):", [ENTER, f"return {draw.one('self.given * 2', 'self.rows + 1', 'torch.zeros(2, 2)')}"]),
        Block("def scaled(self, t):", [ENTER, *draw.body(methods, 2, 1)[0], f"return {draw.tensor(methods)}"]),
        "@staticmethod",
        Block("def fixed(n=2):", [ENTER, f"return torch.ones(n, 2{draw.one('', _ON_ZERO)})"]),
        "@classmethod",
        Block("def of_class(cls):", [ENTER, "return cls.LEVEL * 1"]),
    ]  # fmt: skip
    kept = [_left_as(each, "t") for each in kept]
    more: list[Node] = []
    if draw.maybe(0.5):
        more.append(Block("def _fill(self):", [ENTER, "self.last = self.given * 1"]))
    if draw.maybe(0.5):
        more += ["@property", Block("def twice(self):", [ENTER, "return self.rows"])]
    if draw.maybe(0.4):
        more.append(
            Block(
                "def __init__(self, given):",
                [ENTER, "super().__init__(given)", f"self.rows = {draw.tensor(kept_scope)}"],
            )
        )
    inside = replace(start, tensors=("x", "self.scale", "TABLE"), is_module=True)
    scale: list[Node] = [
        Block(
            "def __init__(self):",
            [
                ENTER, "super().__init__()", "self.scale = nn.Parameter(torch.ones(2, 2))",
                f"self.register_buffer('steps', torch.ones(2, 2){draw.one('', ', persistent=False')})",
                f"self.plain = torch.ones(2, 2{draw.one('', '', _ON_ZERO)})",
            ],
        ),
        Block("def forward(self, x, other=None):", [ENTER, *draw.body(inside, 2, 1)[0], f"return {draw.tensor(inside)}"]),
        Block("def rows(self, count=2):", [ENTER, f"return torch.ones(count, 2{draw.one('', ', device=self.scale.device')})"]),
    ]  # fmt: skip
    scale = [_left_as(each, "x") for each in scale]
    known = len(draw.known)
    scope = replace(
        start, tensors=("p", "self.table", "self.state", "self.weight", "TABLE"), giveable=("self.state",),
        is_module=True, flags=("self.training",),
    )  # fmt: skip
    base: list[Node] = [
        Block(
            "def __init__(self):",
            [
                ENTER, "super().__init__()", f"self.state = torch.zeros(2, 2{draw.one('', '', _ON_ONE)})",
                "self._start()", "self.register_buffer('table', torch.ones(2, 2))",
                "self.weight = nn.Parameter(torch.ones(2, 2))", "self.maybe_none = None",
            ],
        ),
        Block("def _start(self):", [ENTER, f"self.begun = {draw.one('torch.zeros(2, 2)', 'self.state * 1', 'TABLE')}"]),
        *draw.function("based", scope, "self"),
        *draw.function("fixed", replace(start, tensors=("TABLE",)), "static"),
        *draw.function("classed", replace(start, tensors=("TABLE",)), "cls"),
        "@property",
        Block("def level(self):", [ENTER, f"return {draw.one('self.table', 'self.state', 'self.weight * 2', 'torch.ones(2, 2)')}"]),
    ]  # fmt: skip
    made = tuple(draw.known[known:])
    return [
        Block("class Kept:", kept), Block("class KeptMore(Kept):", [*more, "OTHER = 1"]),
        Block("class Scale(nn.Module):", scale), Block("class Base(nn.Module):", base),
    ], made  # fmt: skip


def _main(draw: Draw, far: tuple[Function, ...], based: tuple[Function, ...]) -> list[Node]:
    """The third file: functions, and the module whose `forward` is called."""
    found: list[Node] = ["HERE = torch.ones(2, 2)"]
    known = len(draw.known)
    for number in range(draw.chance.randint(1, 2)):
        tensors = ("TABLE", "HERE")
        scope = Scope(tensors, functions=(*far, *draw.known[known:]), flags=("True",))
        found += draw.function(f"near{number}", scope)
    near = tuple(draw.known[known:])
    attributes = (
        "self.scale", "self.table", "self.state", "self.begun", "self.level", "self.weight", "self.own.scale",
        "self.own.steps", "self.own.plain", "self.kept.rows", "self.kept.given", "self.kept.last", "self.kept.twice",
        "self.kept_list[0]", "self.kept_table['one']", "self.late", "TABLE", "HERE", "self.kept_pair.first",
    )  # fmt: skip
    few = tuple(draw.chance.sample(attributes, 6))
    modules = (
        Function("self.proj", 1, 1), Function("self.own", 1, 2), Function("self.scales[0]", 1, 1),
        Function("self.chain", 1, 1), Function("self.act", 1, 1), Function("self.kept.scaled", 1, 1),
        Function("self.own.rows", 0, 0), Function("self.kept.put", 1, 1, "nothing"), Function("self.kept.fixed", 0, 0),
        Function("self.kept.clear", 0, 0, "nothing"), Function("Kept.fixed", 0, 0),
    )  # fmt: skip
    scope = Scope(
        ("p", *few), functions=(*far, *near, *based, *modules), giveable=("self.state", "self.late"), is_module=True,
        flags=("self.training",),
    )  # fmt: skip
    own: list[Node] = []
    known = len(draw.known)
    for number in range(draw.chance.randint(0, 2)):
        own += draw.function(f"_helped{number}", scope, "self")
    helped = tuple(draw.known[known:])
    if draw.maybe(0.3):
        own += [
            "@property",
            Block("def level(self):", [ENTER, f"return {draw.one('self.scale', 'self.begun', 'HERE')}"]),
        ]
    if draw.maybe(0.2):
        own += [Block("def _start(self):", [ENTER, "super()._start()", "self.begun = torch.ones(2, 2)"])]
    making = replace(
        scope, tensors=("TABLE", "HERE"), functions=(*far, *near), is_module=False, flags=("True",)
    )
    constructor: list[Node] = [
        ENTER, "super().__init__()", "self.proj = nn.Linear(2, 2)", "self.scale = nn.Parameter(torch.ones(2, 2))",
        "self.own = Scale()", f"self.kept = {draw.one('Kept', 'KeptMore')}({draw.tensor(making)})",
        "self.scales = nn.ModuleList([Scale() for _ in range(2)])", "self.act = nn.ReLU()",
        "self.chain = nn.Sequential(nn.Linear(2, 2), nn.ReLU())", f"self.late = {draw.tensor(making)}",
        f"self.kept_list = [{draw.tensor(making)}]", f"self.kept_table = {{'one': {draw.tensor(making)}}}",
        f"self.kept_pair = Pair({draw.tensor(making)}, TABLE)",
    ]  # fmt: skip
    inside = replace(
        scope.with_tensors("x", "y"), tensors=("x", "y", "x", "y", *few), devices=("device",),
        may_send=True,
        flags=("flag", "self.training"), functions=(*far, *near, *based, *helped, *modules),
    )  # fmt: skip
    start: list[Node] = ["a = x", "b = y", "c = x * 1", "d = y * 1"]
    inside = inside.with_tensors("a", "b", "c", "d", "x", "y")
    body: list[Node] = [ENTER, *start]
    for _ in range(draw.chance.randint(3, 9)):
        made, inside = draw.statement(inside, 0)
        body += made
    body = [_left_as(each, "x") for each in [*body, f"return {draw.chance.choice(inside.tensors)}"]]
    head = draw.one(*["x: torch.Tensor, y: torch.Tensor"] * 3, "x, y: torch.Tensor", "x, y")
    return [
        *found,
        Block("class Whole(Base):", [
            Block("def __init__(self):", constructor), *own,
            Block(f"def forward(self, {head}, device, flag):", body),
        ]),
    ]  # fmt: skip


def each_block(nodes: list[Node]) -> Iterator[list[Node]]:
    """Each list of statements, the innermost last."""
    yield nodes
    for node in nodes:
        if isinstance(node, Block):
            yield from each_block(node.body)
