"""The three packages say what they are; one that does not fit the others says so with and without a
machine.
"""

import importlib

for name in ("torch", "torchvision", "torchaudio"):
    try:
        print(name, importlib.import_module(name).__version__)
    except RuntimeError as error:
        print(name, error)
print("done")
