"""The releases of torch: which ones work, and what differs between them.

Needs no torch, so that a release can be refused before anything of it is imported. What differs is one file
for each range of releases, named by its first; `adapter` chooses among them.
"""

from __future__ import annotations

from samedevice.torch_versions.releases import (
    NEWEST,
    OLDEST,
    Release,
    installed_version,
    release_of,
    spelled,
)

__all__ = ["NEWEST", "OLDEST", "Release", "installed_version", "release_of", "spelled"]
