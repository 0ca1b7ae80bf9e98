# cause: extra-input-on-wrong-device
# guilty: ?
import kit
import torch

graph = kit.Graph(torch.randn(3, 4), torch.tensor([[0, 1], [1, 2]]), torch.rand(2))
graph.x, graph.edges = graph.x.to("cuda:0"), graph.edges.to("cuda:0")
model = kit.Layer(4).to("cuda:0")
print(model(graph).shape)
