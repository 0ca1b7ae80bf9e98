import torch
from botorch.acquisition.multi_objective.multi_output_risk_measures import MARS

baseline = torch.rand(5, 2, device="cuda:0", dtype=torch.double)
risk = MARS(alpha=0.5, n_w=4, chebyshev_weights=[0.4, 0.6], baseline_Y=baseline)
print(risk(torch.rand(8, 2, device="cuda:0", dtype=torch.double)))
print("SCENARIO OK")
