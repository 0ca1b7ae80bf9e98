# cause: extra-input-on-wrong-device
# guilty: batch_graph.edata["feat"] (batch_graph or edge_feat)
# after: awslabs/graphstorm#288
import torch
from torch import nn

class Graph:
    """A small stand-in for a sampled (sub)graph."""
    def __init__(self, src, dst, num_nodes, edata=None):
        self.src, self.dst, self.num_nodes = src, dst, num_nodes
        self.edata = edata or {}
    def to(self, device):
        edata = {k: v.to(device) for k, v in self.edata.items()}
        return Graph(self.src.to(device), self.dst.to(device), self.num_nodes, edata)

class EdgeLoader:
    def __init__(self, num_nodes, num_edges, feat_dim, batches):
        self.n, self.e, self.d, self.batches = num_nodes, num_edges, feat_dim, batches
        self.feats = torch.randn(num_nodes, 16)
    def _sample(self, with_feat):
        src, dst = torch.randint(0, self.n, (2, self.e))
        return Graph(src, dst, self.n, {"feat": torch.randn(self.e, self.d)} if with_feat else None)
    def get_node_feats(self, input_nodes, device):
        return self.feats[input_nodes].to(device)
    def __iter__(self):
        for _ in range(self.batches):
            yield torch.arange(self.n), self._sample(True), [self._sample(False) for _ in range(2)]

class SAGE(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.w_self, self.w_nb = nn.Linear(d, d), nn.Linear(d, d)
    def forward(self, block, h):
        agg = torch.zeros_like(h).index_add(0, block.dst, h[block.src])
        deg = torch.bincount(block.dst, minlength=block.num_nodes).clamp(min=1).unsqueeze(1)
        return torch.relu(self.w_self(h) + self.w_nb(agg / deg))

class EdgeDecoder(nn.Module):
    def __init__(self, d, feat_dim):
        super().__init__()
        self.out = nn.Linear(2 * d + feat_dim, 1)
    def forward(self, batch_graph, h):
        u, v = h[batch_graph.src], h[batch_graph.dst]
        z = torch.cat([u, v, batch_graph.edata["feat"]], dim=1)
        return self.out(z).squeeze(1)

class EdgeModel(nn.Module):
    def __init__(self, d, feat_dim):
        super().__init__()
        self.convs = nn.ModuleList([SAGE(d), SAGE(d)])
        self.decoder = EdgeDecoder(d, feat_dim)
    def encode(self, blocks, h):
        for conv, block in zip(self.convs, blocks):
            h = conv(block, h)
        return h

@torch.no_grad()
def edge_mini_batch_predict(model, loader, device):
    preds = []
    model.eval()
    for input_nodes, batch_graph, blocks in loader:
        feats = loader.get_node_feats(input_nodes, device)
        blocks = [block.to(device) for block in blocks]
        preds.append(model.decoder(batch_graph, model.encode(blocks, feats)).cpu())
    return torch.cat(preds)

if __name__ == "__main__":
    model = EdgeModel(16, 4).to("cuda")
    print(edge_mini_batch_predict(model, EdgeLoader(30, 50, 4, batches=3), torch.device("cuda")).shape)
