import torch
from pykeen.models import InductiveNodePiece
from pykeen.triples import CoreTriplesFactory

relations = 3


def graph(entities):
    heads, tails = torch.randint(entities, (2, 40))
    triples = torch.stack([heads, torch.randint(relations, (40,)), tails], 1)
    return CoreTriplesFactory.create(triples, entities, relations, create_inverse_triples=True)


training, inference = graph(9), graph(7)
model = InductiveNodePiece(triples_factory=training, inference_factory=inference, num_tokens=2,
                           embedding_dim=8, random_seed=0)
model = model.to("cuda:0")
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
batch = training.mapped_triples[:8].to("cuda:0")
loss = -model.score_hrt(batch, mode="training").mean()
loss.backward()
optimizer.step()
unseen = inference.mapped_triples[:8].to("cuda:0")
with torch.no_grad():
    print(model.eval().score_hrt(unseen, mode="validation").shape)
print("SCENARIO OK")
