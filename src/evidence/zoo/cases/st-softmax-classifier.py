import torch
from sentence_transformers import SentenceTransformer, losses


class MeanWords(torch.nn.Module):
    def __init__(self, words, size):
        super().__init__()
        self.words = torch.nn.Embedding(words, size)

    def forward(self, features):
        return {**features, "sentence_embedding": self.words(features["input_ids"]).mean(1)}


model = SentenceTransformer(modules=[MeanWords(30, 8)], device="cuda:0").to("cuda:0")
objective = losses.SoftmaxLoss(model, sentence_embedding_dimension=8, num_labels=3)
optimizer = torch.optim.SGD(objective.parameters(), lr=0.1)
for _ in range(2):
    pair = [{"input_ids": torch.randint(30, (4, 5), device="cuda:0")} for _ in range(2)]
    loss = objective(pair, torch.randint(3, (4,), device="cuda:0"))
    loss.backward()
    optimizer.step()
print(loss)
print("SCENARIO OK")
