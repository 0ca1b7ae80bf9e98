import numpy
import torch
from art.attacks.evasion.projected_gradient_descent.projected_gradient_descent_pytorch import (
    ProjectedGradientDescentPyTorch)
from art.estimators.classification import PyTorchClassifier

network = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(16, 3))
classifier = PyTorchClassifier(
    model=network, loss=torch.nn.CrossEntropyLoss(), input_shape=(1, 4, 4), nb_classes=3,
    clip_values=(0.0, 1.0), device_type="gpu")
attack = ProjectedGradientDescentPyTorch(
    classifier, eps=0.2, eps_step=0.1, max_iter=2, decay=0.9, verbose=False)
images = numpy.random.rand(4, 1, 4, 4).astype(numpy.float32)
print(attack.generate(x=images).shape)
print("SCENARIO OK")
