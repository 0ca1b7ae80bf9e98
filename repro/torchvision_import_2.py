import torch
print(torch.__version__, torch.version.cuda)
import torchvision
print(torchvision.__version__, torchvision.ops.nms(torch.rand(3,4), torch.rand(3), .5).shape)

# /// expect
# must = "imports; torch's own build version stays what it is"
# needs = ["torchvision"]
# exit = 0
# ///
