from torchmetrics import BLEUScore

metric = BLEUScore(n_gram=2).to("cuda:0")
references = [[["the", "cat", "is", "on", "the", "mat"], ["there", "is", "a", "cat", "on", "the", "mat"]]]
metric.update(references, [["the", "cat", "is", "on", "the", "mat", "now"]])
print(metric.compute())
print("SCENARIO OK")
