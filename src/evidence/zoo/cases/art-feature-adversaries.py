import numpy
import torch
from art.attacks.evasion import FeatureAdversariesPyTorch
from art.estimators.classification import PyTorchClassifier

network = torch.nn.Sequential(
    torch.nn.Flatten(), torch.nn.Linear(16, 8), torch.nn.ReLU(), torch.nn.Linear(8, 3))
classifier = PyTorchClassifier(
    model=network, loss=torch.nn.CrossEntropyLoss(), input_shape=(1, 4, 4), nb_classes=3,
    clip_values=(0.0, 1.0), preprocessing=None, device_type="gpu")
attack = FeatureAdversariesPyTorch(
    classifier, delta=0.2, layer=1, max_iter=2, batch_size=4, step_size=0.05, verbose=False)
source, guide = numpy.random.rand(2, 4, 1, 4, 4).astype(numpy.float32)
print(attack.generate(source, guide).shape)
print("SCENARIO OK")
