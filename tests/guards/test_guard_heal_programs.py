"""Random programs, healed on several devices, end as on one device or with an error; `python -m
evidence heal-proof` runs thousands.
"""

from __future__ import annotations

import logging
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import samedevice as sd
from evidence.healing import healed_programs


@pytest.fixture(scope="module", autouse=True)
def machine():
    logging.getLogger("samedevice").setLevel(logging.ERROR)
    with sd.machine("2x24GB") as entered:
        yield entered
    logging.getLogger("samedevice").setLevel(logging.NOTSET)


@settings(
    max_examples=100, deadline=None, database=None, derandomize=True, suppress_health_check=list(HealthCheck)
)
@given(st.randoms(use_true_random=False))
def test_never_other_numbers(random):
    program = healed_programs.drawn(random)
    word, why = healed_programs.outcome(program)
    assert word != "DIFFERENT", f"{why}\n{program.way} on {program.places}\n{program.source}"


def test_most_programs_need_healing_and_most_of_those_are_healed():
    """A proof over programs that need nothing, or that are all refused, would show nothing."""
    needing = healed = 0
    for number in range(30):
        program = healed_programs.drawn(Random(f"power:{number}"))
        if not healed_programs.ran(
            healed_programs.Program(program.source, program.places, "none"), healed=True
        ).refused:
            continue
        needing += 1
        healed += healed_programs.outcome(program)[0] == "equal"
    assert needing >= 12
    assert healed >= 0.7 * needing


LOSES = """
def program(place, heal, see):
    import torch
    caller, home = torch.zeros(4, device=place(1)), torch.ones(4, device=place(0))
    for call in range(5):
        lent = caller.to(home.device)
        lent.data.add_(home)
        see(caller=caller)
"""


def test_the_proof_sees_a_lost_write():
    """The program itself does here what healing did once: it hands a copy on."""
    places = ("cuda:0", "cpu")
    alone, healed = (
        healed_programs.ran(healed_programs.Program(LOSES, places, "block"), healed=each)
        for each in (False, True)
    )
    assert healed_programs.judged(alone, healed)[0] == "DIFFERENT"
    same = healed_programs.ran(healed_programs.Program(LOSES, ("cuda:0", "cuda:0"), "block"), healed=True)
    assert healed_programs.judged(alone, same)[0] == "equal"
