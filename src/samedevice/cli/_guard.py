"""`samedevice guard`: a script on the real machine, as Python runs it, with whatever it does not catch
explained.
"""

from __future__ import annotations

import os
import sys
from contextlib import nullcontext

from samedevice.cli._program import enter_path, find_script
from samedevice.cli._traceback import show_exception
from samedevice.errors import UsageError
from samedevice.messages import Language, Phrase, language_of
from samedevice.report import TextRenderer, error_text, readable_language

FAILED, WRONG_USAGE = 1, 2


def guard_script(
    words: tuple[str, ...], chosen: Language | None, heal: bool = False, replay: bool = False
) -> int:
    """Run the script and return its status; what it leaves to `sys.excepthook` gets its diagnosis first.

    With `heal` everything that the main thread asks of torch runs under `samedevice.heal()`.
    """
    language = readable_language(sys.stderr, chosen or language_of(os.environ))
    try:
        if not words:
            raise UsageError(Phrase("usage.no-script-to-guard"))
        program = find_script(words[0], words[1:])
    except UsageError as error:
        print(f"samedevice: {error_text(error, language)}", file=sys.stderr)
        return WRONG_USAGE
    from samedevice.guards import Guard
    from samedevice.guards import heal as healing

    enter_path(program.path_entry)
    renderer = TextRenderer(language)
    Guard(None, renderer, replay).install()
    try:
        with healing(None, renderer) if heal else nullcontext():
            program.run()
    except Exception as error:
        failure = error
    else:
        return 0
    show_exception(failure)
    return FAILED
