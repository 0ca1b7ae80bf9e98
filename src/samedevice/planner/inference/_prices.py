"""What GPUs cost, from a TOML file with a line such as `H100-80G = 2.49` for each.

Currency and time are free, but the same for all.
"""

from __future__ import annotations

import math
import tomllib
from pathlib import Path

from samedevice.errors import MachineSpecError, UsageError
from samedevice.machines import parse_machine
from samedevice.messages import Phrase


def read_prices(path: Path) -> dict[str, float]:
    """Prices by the key of a GPU. Raises UsageError for a file that is not understood."""
    try:
        table = tomllib.loads(path.read_text("utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise UsageError(Phrase("place.prices", path=str(path), reason=str(error))) from None
    prices: dict[str, float] = {}
    for name, price in table.items():
        number = isinstance(price, (int, float)) and not isinstance(price, bool)
        if not number or not math.isfinite(price) or price < 0:
            raise UsageError(Phrase("place.one-price", path=str(path), name=name))
        try:
            gpus = parse_machine(f"1x{name}").gpus
        except MachineSpecError as error:
            raise UsageError(Phrase("place.prices", path=str(path), reason=str(error))) from None
        prices.update(dict.fromkeys((gpu.key for gpu in gpus), float(price)))
    return prices
