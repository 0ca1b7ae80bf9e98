from h import *
import torch.nn as nn
x=torch.randn(8,8,dtype=torch.complex64,device=d)
@t
def fft(): return torch.fft.fft2(x).device, torch.fft.rfft(torch.randn(16,device=d)).dtype, torch.fft.fftshift(x).device, torch.fft.fftfreq(8,device=d).device, torch.fft.irfftn(x).device, torch.fft.hfft(torch.randn(8,device=d)).device
@t
def stft():
    w=torch.hann_window(64,device=d); s=torch.stft(torch.randn(1,400,device=d),64,window=w,return_complex=True); return torch.istft(s,64,window=w).device
@t
def stft_cpuwin(): return torch.stft(torch.randn(1,400,device=d),64,window=torch.hann_window(64),return_complex=True).device
@t
def cplx(): return torch.view_as_real(x).shape, x.conj().is_conj(), (x@x.mH).device, x.abs().device, x.angle().dtype, torch.polar(x.abs(),x.angle()).device, torch.view_as_complex(torch.randn(3,2,device=d)).device, x.real.device, x.imag.is_neg(), x.conj().imag.is_neg(), x.resolve_conj().device, torch.vdot(x[0],x[1]).device
@t
def cplx_grad():
    z=torch.randn(4,4,dtype=torch.cfloat,device=d,requires_grad=True); (z@z.mH).abs().sum().backward(); return z.grad.dtype
A=torch.randn(6,6,device=d); S=A@A.T+6*torch.eye(6,device=d)
for n in ["svd","eigh","qr","cholesky","inv","det","slogdet","eig","eigvals","eigvalsh","svdvals","matrix_norm","pinv","lu","lu_factor","ldl_factor","matrix_rank","cond","matrix_exp","inv_ex","cholesky_ex","householder_product"]:
    def la():
        if n=="householder_product": return torch.linalg.householder_product(*torch.geqrf(S)).device
        r=getattr(torch.linalg,n)(S); r=r[0] if isinstance(r,tuple) else r; return r.device
    la.__name__="linalg."+n; t(la)
@t
def solve(): return torch.linalg.solve(S,torch.randn(6,device=d)).device, torch.cholesky_solve(torch.randn(6,1,device=d),torch.linalg.cholesky(S)).device, torch.linalg.solve_triangular(S,torch.randn(6,2,device=d),upper=True).device
@t
def lstsq(): r=torch.linalg.lstsq(S,torch.randn(6,2,device=d)); return r.solution.device, r.rank
@t
def lstsq_gelsd(): return torch.linalg.lstsq(S,torch.randn(6,2,device=d),driver="gelsd").solution.device
@t
def lobpcg(): return torch.lobpcg(S,k=1)[0].device
@t
def tensorsolve(): return torch.linalg.tensorinv(torch.eye(4*6,device=d).reshape(4,6,8,3)).device, torch.linalg.multi_dot([S,S,S]).device, torch.linalg.vander(torch.arange(3.,device=d)).device, torch.linalg.cross(torch.randn(3,device=d),torch.randn(3,device=d)).device
@t
def einsum(): return torch.einsum("ij,jk,kl->il",S,S,S).device, torch.tensordot(S,S).device, torch.cdist(S,S).device, torch.block_diag(S,S).device, torch.cartesian_prod(S[0],S[1]).device
@t
def histo(): return torch.histc(S).device, torch.bincount(torch.randint(0,5,(9,),device=d)).device, torch.bucketize(S,torch.arange(5.,device=d)).device, torch.unique(torch.randint(0,5,(9,),device=d),return_inverse=True,return_counts=True)[2].device, torch.unique_consecutive(torch.tensor([1,1,2],device=d)).shape, torch.nonzero(S>0).shape[1], torch.masked_select(S,S>0).device, torch.topk(S,2)[0].device, torch.kthvalue(S,2)[0].device, torch.mode(S)[0].device, torch.quantile(S,.5).device, torch.searchsorted(torch.arange(5.,device=d),S).device
@t
def histogram_cuda(): return torch.histogram(S,5)[0].device
@t
def histogramdd_cuda(): return torch.histogramdd(S[:,:2],[2,2])[0].device
@t
def multin(): return torch.multinomial(torch.ones(4,device=d),2).device, torch.bernoulli(torch.ones(3,device=d)*.2).device, torch.poisson(torch.ones(3,device=d)).device, torch.randperm(5,device=d).device, torch.normal(torch.zeros(3,device=d),1.).device
from torch import distributions as D
o=lambda *s: torch.ones(*s,device=d)
for dist in [lambda:D.Normal(o(3)*0,o(3)),lambda:D.Categorical(logits=torch.randn(2,4,device=d)),lambda:D.Dirichlet(o(3)),lambda:D.MultivariateNormal(o(3)*0,torch.eye(3,device=d)),lambda:D.Gamma(o(2),o(2)),lambda:D.Beta(o(2),o(2)),lambda:D.Poisson(o(2)),lambda:D.StudentT(o(2)*3),lambda:D.Bernoulli(o(2)*.3),lambda:D.Binomial(10,o(2)*.3),lambda:D.VonMises(o(2)*0,o(2)),lambda:D.Wishart(torch.tensor(4.,device=d),torch.eye(3,device=d)),lambda:D.LowRankMultivariateNormal(o(3)*0,o(3,1),o(3)),lambda:D.MixtureSameFamily(D.Categorical(o(2)),D.Normal(o(2)*0,o(2))),lambda:D.Geometric(o(2)*.3),lambda:D.OneHotCategorical(o(2)),lambda:D.LKJCholesky(3,torch.tensor(1.,device=d)),lambda:D.RelaxedBernoulli(torch.tensor(1.,device=d),o(2)*.2),lambda:D.NegativeBinomial(5.,o(2)*.3),lambda:D.Multinomial(5,o(3)),lambda:D.TransformedDistribution(D.Normal(o(2)*0,o(2)),[D.TanhTransform()]),lambda:D.ContinuousBernoulli(o(2)*.3),lambda:D.Weibull(o(2),o(2)),lambda:D.Kumaraswamy(o(2),o(2)),lambda:D.Laplace(o(2),o(2)),lambda:D.LogNormal(o(2),o(2)),lambda:D.HalfCauchy(o(2)),lambda:D.Gumbel(o(2),o(2)),lambda:D.Pareto(o(2),o(2)),lambda:D.FisherSnedecor(o(2),o(2))]:
    def ds():
        q=dist(); s=q.sample(); lp=q.log_prob(s); assert s.device.type=="cuda" and lp.device.type=="cuda"; return type(q).__name__
    ds.__name__="dist"; t(ds)
@t
def kl(): return D.kl_divergence(D.Normal(o(3),1.),D.Normal(o(3),2.)).device
L=lambda **k: torch.nested.nested_tensor([torch.randn(2,4),torch.randn(3,4)],device=d,**k)
@t
def nt_make(): return L().device
@t
def nt_pad(): return torch.nested.to_padded_tensor(L(),0.).shape
@t
def nt_lin(): return nn.functional.linear(L(),torch.randn(5,4,device=d)).device
@t
def ntj_make(): return L(layout=torch.jagged).device
@t
def ntj_ops(): n=L(layout=torch.jagged); return (n*2).sum().device, nn.functional.linear(n,torch.randn(5,4,device=d)).device
@t
def ntj_to(): return torch.nested.nested_tensor([torch.randn(2,4),torch.randn(3,4)],layout=torch.jagged).to(d).device
@t
def enc_fast():
    e=nn.TransformerEncoder(nn.TransformerEncoderLayer(8,2,batch_first=True),2).to(d).eval()
    with torch.no_grad(): return e(torch.randn(2,5,8,device=d),src_key_padding_mask=torch.tensor([[0,0,0,1,1],[0,0,0,0,0]],dtype=torch.bool,device=d)).device
@t
def csr_to(): c=torch.randn(4,4).to_sparse_csr().to(d); return c.device
@t
def csr_mm(): c=torch.randn(4,4,device=d).to_sparse_csr(); return (c@torch.randn(4,3,device=d)).device
@t
def coo_make(): return torch.sparse_coo_tensor(torch.tensor([[0,1],[1,0]],device=d),torch.ones(2,device=d),(2,2)).device
@t
def coo_to(): return torch.sparse_coo_tensor(torch.tensor([[0,1],[1,0]]),torch.ones(2),(2,2)).to(d).device
@t
def coo_mm(): s=torch.sparse_coo_tensor(torch.tensor([[0,1],[1,0]]),torch.ones(2),(2,2)).to(d); return torch.sparse.mm(s,torch.randn(2,3,device=d)).device
@t
def coo_from_dense(): return torch.randn(3,3,device=d).to_sparse().coalesce().indices().device
@t
def bsr(): return torch.eye(4,device=d).to_sparse_bsr((2,2)).device
@t
def semi():
    from torch.sparse import to_sparse_semi_structured
    return to_sparse_semi_structured(torch.tensor([0,0,1,1],device=d).tile((64,16)).half()).shape
@t
def quant_dyn(): return torch.ao.quantization.quantize_dynamic(nn.Sequential(nn.Linear(4,4)),{nn.Linear})(torch.randn(2,4)).device
@t
def fakeq(): return torch.fake_quantize_per_tensor_affine(torch.randn(4,device=d),.1,0,0,255).device
@t
def qat():
    import torch.ao.quantization as q
    m=nn.Sequential(q.QuantStub(),nn.Conv2d(3,4,3),nn.ReLU(),q.DeQuantStub()).train(); m.qconfig=q.get_default_qat_qconfig("fbgemm"); m=q.prepare_qat(m).to(d); m(torch.randn(1,3,6,6,device=d)).sum().backward(); c=q.convert(m.cpu().eval()); return c(torch.randn(1,3,6,6)).device
@t
def qtensor(): return torch.quantize_per_tensor(torch.randn(4,device=d),.1,0,torch.qint8).device
@t
def intmm(): return torch._int_mm(torch.randint(-3,3,(32,32),dtype=torch.int8,device=d),torch.randint(-3,3,(32,32),dtype=torch.int8,device=d)).dtype
@t
def fp8(): return torch.randn(16,16,device=d).to(torch.float8_e4m3fn).dtype, torch._scaled_mm(torch.randn(16,16,device=d).to(torch.float8_e4m3fn),torch.randn(16,16,device=d).to(torch.float8_e4m3fn).t(),scale_a=torch.tensor(1.,device=d),scale_b=torch.tensor(1.,device=d)).dtype
@t
def index_put(): y=torch.zeros(4,device=d); y[torch.tensor([1,2])]=1.; y[y>0]=torch.tensor(3.); return y.tolist()
@t
def masked(): return torch.zeros(4,device=d).masked_fill(torch.tensor([1,0,1,0],device=d).bool(),torch.tensor(2.)).tolist()
@t
def where(): return torch.where(S>0,torch.tensor(1.),S).device
@t
def out(): y=torch.empty(6,6,device=d); torch.matmul(S,S,out=y); return y.device
@t
def foreach(): return torch._foreach_add([S,S],1.)[0].device, torch._foreach_norm([S,S])[0].device
@t
def masked_tensor(): 
    from torch.masked import masked_tensor as mt
    return mt(torch.randn(3,device=d),torch.tensor([True,False,True],device=d)).sum().device
@t
def named(): return torch.randn(2,3,device=d,names=("a","b")).sum("a").device

# /// expect
# must = "sparse and jagged tensors work; quantized ones work as on CUDA; strided nested ones are refused by name"
# exit = 1
# prints = ["ok   coo_mm", "ok   csr_mm", "ok   bsr", "ok   ntj_ops", "FAIL nt_make UnsupportedFeatureError", "ok   qtensor"]
# never = ["INTERNAL ASSERT"]
# ///
