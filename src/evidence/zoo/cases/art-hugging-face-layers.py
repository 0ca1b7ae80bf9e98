import numpy as np
import torch
from art.estimators.classification.hugging_face import HuggingFaceClassifierPyTorch
from transformers.modeling_outputs import ImageClassifierOutput


class Network(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.patches = torch.nn.Conv2d(3, 4, 4, stride=4)
        self.head = torch.nn.Linear(16, 5)

    def forward(self, pixels):
        hidden = self.patches(pixels).flatten(1)
        return ImageClassifierOutput(logits=self.head(hidden.relu()))


model = Network().to("cuda:0")
classifier = HuggingFaceClassifierPyTorch(
    model, loss=torch.nn.CrossEntropyLoss(), optimizer=torch.optim.Adam(model.parameters()),
    input_shape=(3, 8, 8), nb_classes=5, clip_values=(0, 1),
)
print(classifier.layer_names, classifier.predict(np.random.rand(2, 3, 8, 8).astype("float32")).shape)
print("SCENARIO OK")
