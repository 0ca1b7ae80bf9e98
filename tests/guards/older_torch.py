"""What healing cannot do on older releases of torch; `docs/versions.md` lists it."""

from __future__ import annotations

import pytest

from samedevice.torch_versions.adapter import RELEASE

REFUSES_HOOKS = RELEASE < (2, 8)
inside_of_hooks = pytest.mark.skipif(
    REFUSES_HOOKS, reason="healing inside of hooks for saved tensors needs torch 2.8"
)
