import torch
from torch_geometric.nn.models.tgn import IdentityMessage, LastAggregator, TGNMemory

memory = TGNMemory(
    num_nodes=10, raw_msg_dim=4, memory_dim=8, time_dim=6,
    message_module=IdentityMessage(4, 8, 6), aggregator_module=LastAggregator(),
).to("cuda:0")
memory.train()
states, last_update = memory(torch.tensor([1, 3, 5], device="cuda:0"))
print(states.shape, last_update)
print("SCENARIO OK")
