import torch
from tabpfn.preprocessing.datamodel import FeatureModality
from tabpfn.preprocessing.torch import FeatureSchema, TorchPreprocessingPipeline, TorchStandardScalerStep

pipeline = TorchPreprocessingPipeline(
    [(TorchStandardScalerStep(), {FeatureModality.NUMERICAL})], keep_fitted_cache=True
)
schema = FeatureSchema.from_only_categorical_indices([], 4)
train, test = torch.randn(32, 4, device="cuda:0"), torch.randn(8, 4, device="cuda:1")
print(pipeline(train, schema).x.mean(0))
print(pipeline(test, schema, use_fitted_cache=True).x.shape)
print("SCENARIO OK")
