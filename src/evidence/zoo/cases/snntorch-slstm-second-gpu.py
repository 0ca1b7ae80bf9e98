import snntorch as snn
import torch

cell = snn.SLSTM(6, 4).to("cuda:1")
spikes = torch.rand(3, 2, 6, device="cuda:1")
synapse, membrane = cell.init_slstm()
record = []
for step in range(3):
    spike, synapse, membrane = cell(spikes[step], synapse, membrane)
    record.append(spike)
print(torch.stack(record).shape)
print("SCENARIO OK")
