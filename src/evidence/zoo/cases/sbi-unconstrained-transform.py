import torch
from sbi.neural_nets import posterior_nn
from sbi.utils import BoxUniform

prior = BoxUniform(low=-2 * torch.ones(2), high=2 * torch.ones(2))
theta, x = prior.sample((40,)), torch.randn(40, 3)
build = posterior_nn("zuko_maf", z_score_theta="transform_to_unconstrained", x_dist=prior,
                     hidden_features=8, num_transforms=1)
estimator = build(theta, x).to("cuda:0")
loss = estimator.loss(theta.to("cuda:0"), x.to("cuda:0")).mean()
loss.backward()
print(loss)
print("SCENARIO OK")
