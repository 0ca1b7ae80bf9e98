"""`GuardCallback`: transformers' Trainer, guarded."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from transformers import TrainerCallback

from samedevice.guards import Guard, Healing, heal
from samedevice.integrations._methods import GuardedMethods
from samedevice.messages import SOURCE, Language
from samedevice.report import TextRenderer, worded_errors


class GuardCallback(TrainerCallback):
    """Explains a device error of the model's forward, on the very exception.

    Also whatever else leaves `trainer.train()` uncaught.

    ```python
    trainer = Trainer(model=model, args=args, train_dataset=data, callbacks=[GuardCallback()])
    ```

    With `healing` the model is healed as well (`samedevice.heal`): each move is logged,
    `callback.healing.repairs` has them. `replay` is that of `samedevice.guard`. Everything is taken off when
    training ends, and by `remove()`.

    Raises `samedevice.errors.UsageError` at the beginning of the training when a model that cannot be healed
    is to be.
    """

    def __init__(self, healing: bool = False, replay: bool = False, language: Language = SOURCE) -> None:
        self._guard = Guard(None, TextRenderer(language), replay)
        self._methods = GuardedMethods(self._guard)
        self._heals, self._language = healing, language
        self._uninstall: Callable[[], None] | None = None
        self.healing: Healing | None = None
        """What `samedevice.heal` returned, while a training runs that is healed."""

    def on_train_begin(
        self, args: Any, state: Any, control: Any, model: Any = None, optimizer: Any = None, **_: Any
    ) -> None:
        """Guard the model's forward and the optimizer's step."""
        self.remove()
        if self._heals:
            with worded_errors(self._language):
                self.healing = heal(model, TextRenderer(self._language))
        self._methods.add(model, "forward")
        if optimizer is not None:
            self._methods.add(optimizer, "step")
        self._uninstall = self._guard.install()

    def on_train_end(self, *_: Any, **__: Any) -> None:
        """Take everything off."""
        self.remove()

    def remove(self) -> None:
        """Take everything off; what was healed stays listed."""
        self._methods.remove()
        if self.healing is not None:
            self.healing.remove()
        if self._uninstall is not None:
            self._uninstall()
            self._uninstall = None
