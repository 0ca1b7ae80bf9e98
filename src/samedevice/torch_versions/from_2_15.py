"""torch 2.15: `nccl` is what older releases know as `nccl2`, unless TORCH_DIST_USE_NCCL2 is 0."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from samedevice.torch_versions import from_2_10 as older


def _nccl_checks_each_tensor(backend: str) -> bool:
    import torch.distributed.distributed_c10d as installed  # not in every build

    c10d: Any = installed  # its makers of backends are new in this release
    made_for = c10d.BackendConfig(c10d.Backend(backend)).get_device_backend_map()
    plugin = c10d.Backend._plugins.get(str(made_for.get("cuda", "")).upper())
    return plugin is not None and plugin.creator_fn in (
        c10d._create_nccl2_process_group,
        c10d._create_nccl_lazy_process_group,
    )


DIFFERENCES = replace(older.DIFFERENCES, nccl_checks_each_tensor=_nccl_checks_each_tensor)
