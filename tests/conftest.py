"""For all tests."""

from __future__ import annotations

import signal

# Tests interrupt the programs that they start. A suite that a shell started in the background would hand down
# that Ctrl-C is ignored.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
