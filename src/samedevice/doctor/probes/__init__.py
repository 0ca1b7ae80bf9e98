"""Reading a machine and an environment: one file for each source.

Must guarantee: what cannot be read is said, never guessed.
"""

from __future__ import annotations

from samedevice.doctor.facts import Facts, Project
from samedevice.doctor.host import Host
from samedevice.doctor.probes.copies import compare_copies
from samedevice.doctor.probes.cuda import read_cuda
from samedevice.doctor.probes.driver import read_driver
from samedevice.doctor.probes.packages import read_packages, read_torch
from samedevice.doctor.probes.project import read_project
from samedevice.doctor.probes.system import read_system


def read_facts(host: Host, folder: str | None) -> Facts:
    """Everything that can be read of a machine, and of the project in a folder where one is named."""
    packages = read_packages(host)
    torch = read_torch(host, packages)
    facts = Facts(
        packages=packages,
        torch=torch,
        variables=dict(host.variables),
        project=Project() if folder is None else read_project(host, folder),
    )
    facts = read_driver(host, facts)
    facts = read_system(host, facts)
    return read_cuda(host, facts)


__all__ = ["compare_copies", "read_facts"]
