import torch
from pykeen.models import DistMult
from pykeen.triples import CoreTriplesFactory

triples = torch.stack([torch.randint(9, (40,)), torch.randint(3, (40,)), torch.randint(9, (40,))], 1)
factory = CoreTriplesFactory.create(torch.unique(triples, dim=0), 9, 3)
model = DistMult(triples_factory=factory, embedding_dim=8, random_seed=0).to("cuda:0")
scores = model.predict_hrt(factory.mapped_triples)
print(factory.mapped_triples[scores.flatten().argmax().item()])
print("SCENARIO OK")
