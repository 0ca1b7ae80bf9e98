# cause: extra-input-on-wrong-device
# guilty: src (edges, edge_index, edges[0])
# line: 20
# repair: in MetapathNet.forward bring the edges of the relation to the layer's card with the states: layer(h, edges.to(device)) (the loop moves h alone)
import torch
import torch.nn as nn

# 论文-作者-会议 异构图，两张卡各放一半的层


class AttentionLayer(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.lin = nn.Linear(dim, dim, bias=False)
        self.att = nn.Linear(2 * dim, 1)

    def forward(self, h, edges):
        src, dst = edges
        z = self.lin(h)
        pair = torch.cat([z[src], z[dst]], dim=-1)
        w = torch.exp(nn.functional.leaky_relu(self.att(pair)).clamp(max=8.0))
        total = torch.zeros(len(h), 1, device=h.device).index_add_(0, dst, w)
        out = torch.zeros_like(z).index_add_(0, dst, w * z[src])
        return h + nn.functional.elu(out / total.clamp(min=1e-6))


class MetapathNet(nn.Module):
    def __init__(self, n_in, dim, n_class, relations, devices):
        super().__init__()
        self.relations = relations
        self.devices = devices
        self.inp = nn.Linear(n_in, dim).to(devices[0])
        self.layers = nn.ModuleList(
            nn.ModuleDict({r: AttentionLayer(dim) for r in relations}).to(d) for d in devices
        )
        self.out = nn.Linear(dim, n_class).to(devices[-1])

    def forward(self, x, graph):
        h = self.inp(x)
        for layer, device in zip(self.layers, self.devices):
            h = h.to(device)
            parts = []
            for relation in self.relations:
                edges = graph[relation]
                parts.append(layer[relation](h, edges))
            h = torch.stack(parts).mean(0)
        return self.out(h)


def make_graph(n_nodes, device):
    graph = {}
    for relation, n_edges in (("writes", 240), ("cites", 400), ("appears", 120)):
        graph[relation] = torch.randint(0, n_nodes, (2, n_edges)).to(device)
    return graph


def accuracy(logits, labels, mask):
    return (logits[mask].argmax(1) == labels[mask]).float().mean().item()


def main():
    torch.manual_seed(1)
    n_nodes, devices = 100, ["cuda:0", "cuda:1"]
    graph = make_graph(n_nodes, devices[0])
    x = torch.randn(n_nodes, 20, device=devices[0])
    labels = torch.randint(0, 4, (n_nodes,), device=devices[-1])
    train = torch.rand(n_nodes, device=devices[-1]) < 0.6
    net = MetapathNet(20, 24, 4, list(graph), devices)
    opt = torch.optim.Adam(net.parameters(), lr=5e-3, weight_decay=5e-4)
    for epoch in range(3):
        logits = net(x, graph)
        loss = nn.functional.cross_entropy(logits[train], labels[train])
        opt.zero_grad()
        loss.backward()
        opt.step()
        print(epoch, loss.item(), accuracy(logits, labels, ~train))


if __name__ == "__main__":
    main()
