"""`python -m evidence plans`: its loads are those of the plan, and a worse map is called worse."""

from __future__ import annotations

from evidence.memory.plans import AT, LENGTHS, NEW_TOKENS, compared, loads_of, longest
from samedevice.machines import parse_machine
from samedevice.planner.inference import Loads, Slot, Workload, divide, find_model, measuring

CONFIG = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 256, "vocab_size": 8000,
    "intermediate_size": 512, "num_hidden_layers": 4, "num_attention_heads": 4, "torch_dtype": "bfloat16",
}  # fmt: skip


def test_the_plan_is_compared_with_what_libraries_do():
    with measuring(find_model(CONFIG)) as measure:
        profiles = {length: measure(Workload(1, length, NEW_TOKENS)) for length in LENGTHS}
    blocks = profiles[AT].blocks
    slots = [Slot(3 << 30)] * 2
    division = divide(Loads(blocks), slots)
    places = {
        name: run.gpu
        for run in division.runs
        for block in blocks[run.start : run.stop]
        for name in block.names
    }
    loads = loads_of(blocks, places)
    assert loads == {run.gpu: Loads(blocks).peak(run.start, run.stop) for run in division.runs}
    alone = dict.fromkeys(places, 0)
    assert longest(profiles, slots, alone) < longest(profiles, slots, places)
    assert longest(profiles, slots, {**places, "lm_head": "cpu"}) is None
    plan, *others = compared(CONFIG, profiles, parse_machine("2x4GB"), trials=False)
    assert (plan.who, plan.load) == ("plan", 1.0)
    assert len(others) == 4
    assert max(row.load for row in others) > 1
