import torch
import torchattacks

model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(3 * 8 * 8, 5)).to("cuda:0")
images = torch.rand(2, 3, 8, 8, device="cuda:0")
labels = torch.tensor([1, 4], device="cuda:0")
attack = torchattacks.CW(model, c=1, steps=3)
adversarial = attack(images, labels)
print((adversarial - images).abs().max())
print("SCENARIO OK")
