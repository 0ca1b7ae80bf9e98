from h import *
import torch.nn as nn
from torch.func import *
from torch.func import vmap
m=nn.Sequential(nn.Linear(5,7),nn.Tanh(),nn.Linear(7,2)).to(d)
x=torch.randn(5,device=d); f=lambda x:(x.sin()**2).sum()
@t
def grad_(): return grad(f)(x).device
@t
def jvp_(): return jvp(torch.sin,(x,),(x,))[1].device
@t
def hess(): return hessian(f)(x).shape
@t
def jr(): return jacrev(torch.sin)(x).device
@t
def jf(): return jacfwd(torch.sin)(x).device
@t
def vg(): return vmap(grad(f))(torch.randn(4,5,device=d)).device
@t
def persample():
    p={k:v.detach() for k,v in m.named_parameters()}
    def loss(p,x,y): return nn.functional.cross_entropy(functional_call(m,p,(x.unsqueeze(0),)),y.unsqueeze(0))
    return {k:(tuple(v.shape),v.device) for k,v in vmap(grad(loss),in_dims=(None,0,0))(p,torch.randn(6,5,device=d),torch.randint(0,2,(6,),device=d)).items()}
@t
def ens():
    ms=[nn.Linear(5,2).to(d) for _ in range(3)]
    params,bufs=stack_module_state(ms); base=nn.Linear(5,2).to("meta")
    return vmap(lambda p,b,x:functional_call(base,(p,b),(x,)),in_dims=(0,0,None))(params,bufs,torch.randn(4,5,device=d)).shape
@t
def vr(): return vmap(lambda x: x+torch.randn(5,device=d),randomness="different")(torch.randn(4,5,device=d)).shape
@t
def vmapmlp_big(): return vmap(lambda x: m(x))(torch.randn(70000,5,device=d)).shape
@t
def afj(): return torch.autograd.functional.jacobian(torch.exp,x).device
@t
def afh(): return torch.autograd.functional.hessian(f,x).device
@t
def afhf(): return torch.autograd.functional.jacobian(torch.exp,x,vectorize=True,strategy="forward-mode").device
@t
def fwad():
    import torch.autograd.forward_ad as fwAD
    with fwAD.dual_level(): return fwAD.unpack_dual(fwAD.make_dual(x,x).sin()).tangent.device
@t
def isgb(): return torch.autograd.grad(m(torch.randn(3,5,device=d)).sum(0),list(m.parameters()),grad_outputs=torch.eye(2,device=d),is_grads_batched=True)[0].shape
@t
def comp(): return torch.compile(m)(torch.randn(2,5,device=d)).device
@t
def comp_full(): return torch.compile(f,fullgraph=True,mode="max-autotune")(x).device
@t
def dyn_explain(): return torch._dynamo.explain(m)(torch.randn(2,5,device=d)).graph_count
@t
def fxs():
    from torch import fx; return fx.symbolic_trace(m)(torch.randn(2,5,device=d)).device
@t
def mkfx():
    from torch.fx.experimental.proxy_tensor import make_fx
    return make_fx(m)(torch.randn(2,5,device=d)).code[:60]
@t
def shapeprop():
    from torch.fx.passes.shape_prop import ShapeProp; from torch import fx
    g=fx.symbolic_trace(m); ShapeProp(g).propagate(torch.randn(2,5,device=d)); return list(g.graph.nodes)[-1].meta["tensor_meta"].shape
@t
def export(): return torch.export.export(m,(torch.randn(2,5,device=d),)).module()(torch.randn(2,5,device=d)).device
@t
def export_dyn():
    from torch.export import Dim, export, save, load
    ep=export(m,(torch.randn(3,5,device=d),),dynamic_shapes=({0:Dim("b")},), strict=False); save(ep,"ep.pt2"); return load("ep.pt2").module()(torch.randn(7,5,device=d)).device
@t
def run_decomp(): return len(list(torch.export.export(m,(torch.randn(2,5,device=d),)).run_decompositions().graph.nodes))
@t
def fake():
    from torch._subclasses.fake_tensor import FakeTensorMode
    with FakeTensorMode() as fm: return (torch.randn(3,device=d)*2).device
@t
def fake2():
    from torch._subclasses.fake_tensor import FakeTensorMode
    with FakeTensorMode(allow_non_fake_inputs=True) as fm: return m(torch.randn(3,5,device=d)).device
@t
def aot():
    from torch._functorch.aot_autograd import aot_function
    from functorch.compile import nop
    return aot_function(lambda x: (x*2).sin(),fw_compiler=nop)(torch.randn(4,device=d,requires_grad=True)).sum().backward()
@t
def linearize(): return torch.func.linearize(torch.sin,x)[1](x).device
@t
def functionalize_(): return functionalize(lambda x: x.clone().add_(1))(x).device
@t
def custom_op():
    @torch.library.custom_op("my::sq",mutates_args=())
    def sq(x: torch.Tensor)->torch.Tensor: return x*x
    @sq.register_fake
    def _(x): return torch.empty_like(x)
    return sq(x).device
@t
def autograd_function():
    class F(torch.autograd.Function):
        @staticmethod
        def forward(ctx,x): ctx.save_for_backward(x); return x.exp()
        @staticmethod
        def backward(ctx,g): return g*ctx.saved_tensors[0].exp()
    y=torch.randn(3,device=d,requires_grad=True); F.apply(y).sum().backward(); return y.grad.device
@t
def flopcounter():
    from torch.utils.flop_counter import FlopCounterMode
    with FlopCounterMode(display=False) as c: m(torch.randn(2,5,device=d))
    return c.get_total_flops()
@t
def higher_cond(): return torch.cond(x.sum()>0,lambda a:a+1,lambda a:a-1,(x,)).device
@t
def flexattn():
    from torch.nn.attention.flex_attention import flex_attention, create_block_mask
    q=torch.randn(1,2,16,8,device=d); bm=create_block_mask(lambda b,h,q,k:q>=k,None,None,16,16,device=d)
    return flex_attention(q,q,q,block_mask=bm).device
@t
def sdpk():
    from torch.nn.attention import sdpa_kernel, SDPBackend
    q=torch.randn(1,2,16,8,device=d,dtype=torch.float16)
    with sdpa_kernel(SDPBackend.FLASH_ATTENTION): return torch.nn.functional.scaled_dot_product_attention(q,q,q).device
@t
def hooks_saved():
    with torch.autograd.graph.save_on_cpu(pin_memory=True):
        y=torch.randn(3,5,device=d,requires_grad=True); m(y).sum().backward(); return y.grad.device
@t
def dlpack(): return torch.utils.dlpack.from_dlpack(torch.utils.dlpack.to_dlpack(x)).device
@t
def nump(): return x.cpu().numpy().dtype
@t
def nump_err(): return x.numpy()
@t
def cuda_array(): return x.__cuda_array_interface__["shape"]

# /// expect
# must = "works, but for Dynamo, which is refused by name"
# exit = 0
# prints = ["ok   jvp_", "ok   hess", "ok   fwad", "ok   mkfx", "ok   export_dyn", "ok   aot", "ok   higher_cond", "ok   flexattn", "ok   dlpack", "FAIL dyn_explain UnsupportedFeatureError"]
# never = ["INTERNAL ASSERT"]
# ///
