"""Where tensors come from: compact sites of source code, taken in well under a microsecond, resolved when a person asks."""

from __future__ import annotations

from samedevice.provenance._frames import FrameFilter, Site, resolve, site_of

__all__ = ["FrameFilter", "Site", "resolve", "site_of"]
