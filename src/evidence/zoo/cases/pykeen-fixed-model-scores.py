import torch
from pykeen.datasets import Nations
from pykeen.models import FixedModel

factory = Nations().training
model = FixedModel(triples_factory=factory).to("cuda:0")
queries = factory.mapped_triples[:4, :2].to("cuda:0")
print(model.score_t(queries).shape)
print("SCENARIO OK")
