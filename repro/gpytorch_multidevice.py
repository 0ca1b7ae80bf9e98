import torch, gpytorch, math
from gpytorch.kernels import *
x=torch.linspace(0,1,60).cuda(); y=torch.sin(x*6).cuda()
class G(gpytorch.models.ExactGP):
    def __init__(s,x,y,l,multi):
        super().__init__(x,y,l); s.mean_module=gpytorch.means.ConstantMean(); b=ScaleKernel(RBFKernel()); s.covar_module=MultiDeviceKernel(b,device_ids=range(2),output_device=torch.device("cuda:0")) if multi else b
    def forward(s,x): return gpytorch.distributions.MultivariateNormal(s.mean_module(x),s.covar_module(x))
for multi in [False,True]:
    l=gpytorch.likelihoods.GaussianLikelihood().cuda(); m=G(x,y,l,multi).cuda(); m.train(); l.train(); o=torch.optim.Adam(m.parameters(),lr=.1); mll=gpytorch.mlls.ExactMarginalLogLikelihood(l,m)
    for _ in range(2): o.zero_grad(); loss=-mll(m(x),y); loss.backward(); o.step()
    m.eval(); l.eval()
    with torch.no_grad(): print(multi,l(m(x[:5])).mean.device, float(loss))

# /// expect
# must = "a cause"
# needs = ["gpytorch"]
# exit = 1
# findings = [{code = "SD101", op = "aten.cat.default", cause = "data-parallel-replica-device"}]
# ///
