"""What people read, as data: phrases, and one catalogue for each language.

A `Phrase` is a key with its values, and a catalogue has the sentence of each key in one language; the
sentences of a cause stand in its file in `diagnosis/rules`.

Every layer may make phrases; `report` alone turns them into text. A language is a file of this folder:
`en.toml` is the one that the others are compared with (`tests/report/test_report_messages.py`), and a further
one needs no line of code. Nothing is read before the first sentence is asked for.
"""

from __future__ import annotations

from samedevice.messages._catalogue import SOURCE, Language, catalogue, language_of, languages
from samedevice.messages._phrase import Bytes, Phrase, Several, Value, short_operator, signed_percent

__all__ = [
    "SOURCE",
    "Bytes",
    "Language",
    "Phrase",
    "Several",
    "Value",
    "catalogue",
    "language_of",
    "languages",
    "short_operator",
    "signed_percent",
]
