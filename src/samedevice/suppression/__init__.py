"""What somebody decided not to be told again: comments in the source, codes in the settings, a baseline.

Must guarantee: what is left out is counted, and a decision that nobody can read (a comment without a code, a
baseline that is no JSON) leaves nothing out.
"""

from __future__ import annotations

from samedevice.suppression._baseline import Baseline, Entry, baseline_to_use, updated, write_baseline
from samedevice.suppression._comments import Comment, Problem, comments_in
from samedevice.suppression._identity import Identity, identity_of
from samedevice.suppression._sift import Decisions, Found, Sifted, found_in, sift

__all__ = [
    "Baseline",
    "Comment",
    "Decisions",
    "Entry",
    "Found",
    "Identity",
    "Problem",
    "Sifted",
    "baseline_to_use",
    "comments_in",
    "found_in",
    "identity_of",
    "sift",
    "updated",
    "write_baseline",
]
