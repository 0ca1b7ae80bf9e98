# in an environment of PyPI's torch 2.13.0 (+cu130) and torchvision 0.28.0 (+cu130): fails under samedevice, works without
import torch
print(torch.version.cuda)
import torchvision
print(torchvision.__version__)

# /// expect
# must = "imports; torch's own build version stays what it is"
# needs = ["torchvision"]
# exit = 0
# ///
