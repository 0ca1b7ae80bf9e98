"""How one target is tried, with models of its own: copies, what is told, limits of its process."""

from __future__ import annotations

import io
import json
import time
from typing import ClassVar

import pytest
import torch

from samedevice.report import render_finding
from samedevice.sweep import _actions, _trial
from samedevice.sweep._case import Case, Full, Untried
from samedevice.sweep._full import MACHINES
from samedevice.sweep._placing import with_placement
from samedevice.sweep._small import Recipe, at_most, smallest
from samedevice.sweep._state import state_of
from samedevice.sweep._trial import Asked, try_target
from samedevice.sweep._worker import _fork


class Halves(torch.nn.Module):
    """Two layers of equal size; `meet` is what the second one does with what it is given."""

    def __init__(self, meet):
        super().__init__()
        self.first, self.second, self.meet, self.calls = torch.nn.Linear(4, 4), torch.nn.Linear(4, 4), meet, 0

    def forward(self, inputs):
        self.calls += 1
        return self.meet(self, inputs, self.first(inputs))


class OneModel:
    """A library with one model, which is cut in its middle."""

    def __init__(self, meet):
        self.meet = meet

    def bring(self, name):
        pass

    def case(self, name, actions):
        case = Case(Halves(self.meet), {"inputs": torch.ones(2, 4)}, {}, "tiny")
        case.sizes = lambda model: {"": 160}
        case.infer = lambda model, memory: {"first": 0, "second": int(memory[0] < 160)}
        case.spread = spread
        return case


def spread(model, device_map):
    for name, device in device_map.items():
        getattr(model, name).to(f"cuda:{device}")
    return model


def right(model, inputs, made):
    return model.second(made.to(model.second.weight.device))


def told_of(meet, monkeypatch, actions=("loss", "again")):
    monkeypatch.setitem(_actions.ACTIONS, "again", _actions.ACTIONS["loss"])
    told = []
    library = OneModel(meet)

    def document(finding):
        return render_finding(finding).as_json()

    try_target(
        library,
        "m:Halves",
        Asked(actions=actions, cuts=2),
        told.append,
        lambda f: render_finding(f).as_json(),
    )
    return told


def runs_of(told):
    return [(each["cut"], each["action"], each["status"]) for each in told if each["kind"] == "run"]


def test_a_right_model_runs_on_one_gpu_and_on_its_cut(monkeypatch):
    told = told_of(right, monkeypatch)
    cut = "second@1"
    assert runs_of(told) == [("", a, "ran") for a in ("loss", "again")] + [
        (cut, a, "ran") for a in ("loss", "again")
    ]


def test_a_wrong_statement_is_told_once_and_met_by_each_action(monkeypatch):
    told = told_of(lambda model, inputs, made: model.second(made), monkeypatch)
    assert [status for cut, _, status in runs_of(told) if cut] == ["found", "found"]
    assert sum(each["kind"] == "finding" for each in told) == 1


def test_what_only_follows_from_a_statement_is_none_of_its_own(monkeypatch):
    def follows(model, inputs, made):
        x = inputs + model.second(made.to(model.second.weight.device))
        x = x + model.second.bias  # on the other GPU only because the sum stayed on the first one
        return x

    def fails_twice(model, inputs, made):
        model.second(made)
        return model.second.bias + inputs

    for meet, count in ((follows, 1), (fails_twice, 2)):
        told = told_of(meet, monkeypatch, actions=("loss",))
        assert sum(each["kind"] == "finding" for each in told) == count


def test_what_an_earlier_call_leaves_behind_is_no_finding_of_a_later_action(monkeypatch):
    def stale(model, inputs, made):
        if model.calls > 1:
            return model.second(made)  # wrong, but only where a copy is used twice
        return right(model, inputs, made)

    told = told_of(stale, monkeypatch)
    assert {status for *_, status in runs_of(told)} == {"ran"}


def test_what_fails_with_a_used_copy_and_not_with_a_fresh_one_did_not_fail(monkeypatch):
    def tired(model, inputs, made):
        if model.calls > 1:
            raise RuntimeError("used")
        return right(model, inputs, made)

    assert {status for *_, status in runs_of(told_of(tired, monkeypatch))} == {"ran"}


def test_a_copy_that_was_not_found_wrong_is_used_for_the_next_action(monkeypatch):
    made = []
    monkeypatch.setattr("samedevice.sweep._trial.copied", lambda model: made.append(1) or Halves(model.meet))
    told_of(right, monkeypatch)
    assert len(made) == 2  # one for a single GPU, one for the cut


@pytest.mark.parametrize(
    ("work", "how"), [("rest", "ended"), ("spin", "out of time"), ("hang", "out of time")]
)
def test_the_limit_of_time_is_that_of_the_processor_or_of_doing_nothing(work, how):
    class Slow(OneModel):
        def case(self, name, actions):
            began = time.process_time()
            for _ in range(4 if work == "rest" else 0):
                time.sleep(0.4)
                while time.process_time() - began < 0.05:
                    pass
                began = time.process_time()
            while work == "spin" and time.process_time() < 60:
                pass
            time.sleep(60 if work == "hang" else 0)
            raise Untried("slow")

    out = io.StringIO()
    out.fileno = None
    ended = _fork(Slow(right), "m:Halves", Asked(), json.dumps, out, 1.0, 1 << 40, set())
    assert ended["how"] == how


def test_a_model_with_too_many_parameters_is_given_up_before_it_has_values():
    with pytest.raises(Untried, match="more than 1,000 parameters"), at_most(1000):
        torch.nn.Linear(40, 40)
    with at_most(1000):
        tied = torch.nn.Linear(20, 20, bias=False)
        other = torch.nn.Linear(20, 20, bias=False)
        other.weight = tied.weight


def test_each_way_to_offload_is_a_run_with_a_fresh_copy(monkeypatch):
    class Offloaded(OneModel):
        def case(self, name, actions):
            case = super().case(name, actions)
            case.infer = None
            case.offloads = {"whole": lambda model: model.to("cuda:0"), "half": half}
            return case

    def half(model):
        model.first.to("cuda:0")
        return model

    told = []
    asked = Asked(actions=("loss", "offload"), cuts=2)
    library = Offloaded(lambda model, inputs, made: model.second(made))
    try_target(library, "m:Halves", asked, told.append, lambda finding: {})
    ran = {cut: status for cut, action, status in runs_of(told) if action == "offload" and cut}
    assert ran == {"whole offload": "ran", "half offload": "found"}
    assert not [each for each in told if each["kind"] == "confirmed"]


class Picky:
    """A model that wants a picture, and in small sizes fails for want of width."""

    main_input_name = "pixel_values"
    calls: ClassVar[list[tuple[int, int]]] = []

    def __init__(self, config):
        self.width = config["hidden_size"]

    def parameters(self):
        return iter(())

    def eval(self):
        return self

    def to(self, device):
        return self

    def forward(self, pixel_values):
        self.calls.append((self.width, pixel_values.dim()))
        if pixel_values.dim() != 4:
            raise ValueError("too many values to unpack (expected 4)")
        if self.width < 64:
            raise RuntimeError("shape is invalid")

    __call__ = forward


def test_inputs_that_no_size_can_take_are_tried_once(monkeypatch):
    monkeypatch.setattr(Picky, "calls", [])
    monkeypatch.setattr("samedevice.sweep._small._GPU", "cpu")
    made = smallest(Recipe(Picky, Configuration, Picky), {"hidden_size": 128})
    assert made.model.width >= 64
    wrong = [dimensions for width, dimensions in Picky.calls if dimensions != 4]
    assert 0 < len(wrong) <= 8
    assert [width for width, dimensions in Picky.calls if dimensions == 4].count(8) > 1


def test_a_model_goes_to_the_gpu_once_for_all_inputs_that_are_tried(monkeypatch):
    built, moved = [], []
    monkeypatch.setattr("samedevice.sweep._small._GPU", "cpu")
    monkeypatch.setattr(Picky, "to", lambda model, device: moved.append(device) or model, raising=False)
    monkeypatch.setattr(Picky, "calls", [])
    smallest(
        Recipe(Picky, Configuration, lambda config: built.append(config) or Picky(config)),
        {"hidden_size": 128},
    )
    assert len(moved) <= len(built) < len(Picky.calls)


def test_each_part_of_a_model_is_measured_once_for_all_budgets():
    measured = []

    class Placement:
        @staticmethod
        def compute_module_sizes(model):
            measured.append(model)
            return {"": 8}, {}

        @staticmethod
        def get_max_memory(memory):
            raise AssertionError("a GPU was asked, though budgets say it")

        @classmethod
        def infer_auto_device_map(cls, model, max_memory, no_split_module_classes):
            cls.compute_module_sizes(model)[0].clear()
            return {"": int(cls.get_max_memory(max_memory)[0] < cls.compute_module_sizes(model)[0][""])}

    model = Halves(right)
    case = with_placement(Case(model, {}, {}, "tiny"), Placement)
    assert [case.infer(model, {0: budget, 1: 99}) for budget in (4, 16)] == [{"": 1}, {"": 0}]
    assert measured == [model]


def built_in(reasons, monkeypatch):
    """The widths that are built where each fails with the next of these reasons; the last one stays."""
    monkeypatch.setattr("samedevice.sweep._small._GPU", "cpu")
    built = []

    def build(config):
        built.append(config["hidden_size"])
        raise reasons[min(len(built), len(reasons)) - 1]

    with pytest.raises(Untried):
        smallest(Recipe(Picky, Configuration, build), {"hidden_size": 128, "num_attention_heads": 4})
    return built


def test_a_missing_package_is_missing_in_every_size(monkeypatch):
    assert len(built_in([ImportError("wants detectron2")], monkeypatch)) == 1


def test_a_reason_without_a_number_that_comes_again_leaves_out_sizes_like_those(monkeypatch):
    alike = built_in([TypeError("'NoneType' object is not subscriptable")], monkeypatch)
    sizes = built_in([ValueError(f"{width} does not divide 7") for width in range(20)], monkeypatch)
    assert set(alike) == set(sizes)
    assert len(alike) < len(sizes)


def test_a_look_at_a_model_tells_whether_something_in_it_changed():
    model = Halves(right)
    model.table = {"lengths": [1, 2]}
    model.register_buffer("kept", torch.zeros(2))
    for change in (
        lambda: setattr(model, "calls", 7),
        lambda: model.table["lengths"].append(3),
        lambda: model.kept.add_(1),
        lambda: setattr(model.first, "bias", torch.nn.Parameter(model.first.bias.detach())),
        lambda: setattr(model.second.weight, "grad", torch.zeros(4, 4)),
    ):
        before = state_of(model)
        assert before == state_of(model)
        change()
        assert before != state_of(model)


def test_a_copy_in_which_nothing_changed_is_used_again_after_a_finding(monkeypatch):
    made = []
    placed = _trial._placed
    monkeypatch.setattr(_trial, "_placed", lambda case, cut: made.append(cut) or placed(case, cut))

    def as_before(model, inputs, made):
        model.calls = 0
        return model.second(made)

    told = told_of(as_before, monkeypatch)
    assert [status for cut, _, status in runs_of(told) if cut] == ["found", "found"]
    assert len(made) == 2  # one for a single GPU, one for the cut


def test_what_was_found_is_looked_for_in_released_sizes(monkeypatch):
    class Released(OneModel):
        def case(self, name, actions):
            case = super().case(name, actions)

            def load(*, split):
                return spread(Halves(self.meet), {"first": 0, "second": int(split)})

            def fails():
                raise RuntimeError("too large")

            given = [({"wrong": 1}, {}), (case.inputs, {})]
            case.full = lambda: iter([
                Full("split", lambda: load(split=True), lambda model: iter(given)),
                Full("whole", lambda: load(split=False), lambda model: iter(given)),
                Full("large", fails, lambda model: iter(given)),
            ])  # fmt: skip
            return case

    def told(asked):
        lines = []
        library = Released(lambda model, inputs, made: model.second(made))
        try_target(library, "m:Halves", asked, lines.append, lambda finding: {})
        return {
            (each["size"], each["met"], each["reason"]) for each in lines if each["kind"] == "full"
        }, lines

    assert told(Asked(actions=("loss",), cuts=2))[0] == set()
    sizes, lines = told(Asked(actions=("loss",), cuts=2, full_size=True))
    assert sizes == {("split", True, ""), ("whole", False, ""), ("large", False, "RuntimeError: too large")}
    assert {each["machine"] for each in lines if each["kind"] == "full"} == set(MACHINES)


def test_nothing_of_the_runs_that_chose_a_size_stays_in_the_model(monkeypatch):
    monkeypatch.setattr(Picky, "calls", [])
    monkeypatch.setattr("samedevice.sweep._small._GPU", "cpu")

    class Keeps(Picky):
        kept = None

        def forward(self, pixel_values):
            super().forward(pixel_values)
            self.kept = pixel_values

        __call__ = forward

    assert smallest(Recipe(Keeps, Configuration, Keeps), {"hidden_size": 128}).model.kept is None


class Configuration(dict):
    """A configuration whose fields are attributes, as those of libraries are."""

    def __getattr__(self, name):
        if name not in self:
            raise AttributeError(name)
        return self[name]


def test_a_model_that_wants_what_nothing_is_known_of_is_told_by_the_name_of_that():
    class Session(Picky):
        def forward(self, pixel_values, inference_session):
            raise AssertionError("it was called without a session")

    with pytest.raises(Untried, match="nothing is known to give for inference_session"):
        smallest(Recipe(Session, Configuration, Session), {"hidden_size": 128})
