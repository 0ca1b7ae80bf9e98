# cause: extra-input-on-wrong-device
# guilty: mask
import kit

ids, mask = kit.collate([[3, 4, 5], [6, 7]])
model = kit.Encoder().to("cuda:0")
print(model(ids.to("cuda:0"), mask).shape)
