"""`guard_accelerator`: a loop of one's own around an `Accelerator`, guarded."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from samedevice.guards import Guard
from samedevice.integrations._methods import GuardedMethods
from samedevice.messages import SOURCE, Language
from samedevice.report import TextRenderer


def guard_accelerator(
    accelerator: Any, replay: bool = False, language: Language = SOURCE
) -> Callable[[], None]:
    """Guard what the accelerator prepares from now on, and its `backward`.

    Returns what takes everything off again.

    ```python
    accelerator = Accelerator()
    remove = guard_accelerator(accelerator)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    ```

    A device error of a prepared model's forward, of an optimizer's step or of `accelerator.backward` carries
    its finding, on the very exception. Raises nothing of its own.
    """
    methods = GuardedMethods(Guard(None, TextRenderer(language), replay))

    def guards_what_it_prepares(prepare: Callable[..., Any]) -> Callable[..., Any]:
        def prepared(*args: Any, **kwargs: Any) -> Any:
            result = prepare(*args, **kwargs)
            for each in result if isinstance(result, tuple) else (result,):
                for name in ("forward", "step"):
                    if callable(getattr(each, name, None)) and hasattr(each, "state_dict"):
                        methods.add(each, name)
            return result

        return prepared

    methods.layer(accelerator, "prepare", guards_what_it_prepares)
    methods.add(accelerator, "backward")
    return methods.remove
