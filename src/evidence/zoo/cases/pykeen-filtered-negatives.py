import torch
from pykeen.models import TransE
from pykeen.training import SLCWATrainingLoop
from pykeen.triples import CoreTriplesFactory

triples = torch.stack([torch.randint(9, (40,)), torch.randint(3, (40,)), torch.randint(9, (40,))], 1)
triples = torch.unique(triples, dim=0)
factory = CoreTriplesFactory.create(triples, 9, 3)
model = TransE(triples_factory=factory, embedding_dim=8, loss="CrossEntropyLoss", random_seed=0).to("cuda:0")
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
loop = SLCWATrainingLoop(triples_factory=factory, model=model, optimizer=optimizer, negative_sampler="basic",
                         negative_sampler_kwargs=dict(filtered=True))
print(loop.train(triples_factory=factory, num_epochs=2, batch_size=8, use_tqdm=False))
print("SCENARIO OK")
