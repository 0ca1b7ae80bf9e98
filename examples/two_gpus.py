import torch

first = torch.nn.Linear(8, 8).to("cuda:0")
second = torch.nn.Linear(8, 8).to("cuda:1")

hidden = first(torch.ones(2, 8, device="cuda:0")).to("cuda:1")
scores = second(hidden + torch.arange(8))
