from h import *
import torch.nn as nn
m=nn.Sequential(nn.Conv2d(3,4,3),nn.ReLU(),nn.Flatten(),nn.Linear(4*36,5)).to(d).eval()
x=torch.randn(2,3,8,8,device=d)
@t
def trace(): return torch.jit.trace(m,x)(x).device
@t
def trace_save():
    torch.jit.trace(m,x).save("tr.pt"); l=torch.jit.load("tr.pt",map_location="cuda:1"); return l(x.to("cuda:1")).device
@t
def trace_load_nomap():
    l=torch.jit.load("tr.pt"); return next(l.parameters()).device
@t
def trace_module(): return torch.jit.trace_module(m,{"forward":x})(x).device
class S(nn.Module):
    def __init__(s): super().__init__(); s.l=nn.Linear(4,4)
    def forward(s,x:torch.Tensor,n:int)->torch.Tensor:
        for i in range(n):
            if x.sum()>0: x=s.l(x)
            else: x=-s.l(x)
        return x
@t
def script(): return torch.jit.script(S().to(d))(torch.randn(2,4,device=d),3).device
@t
def script_fn():
    @torch.jit.script
    def g(a:torch.Tensor,b:torch.Tensor): return a*b+torch.ones_like(a)
    return g(x,x).device
@t
def script_graph(): return len(str(torch.jit.script(S().to(d)).graph))
@t
def script_save(): s=torch.jit.script(S().to(d)); s.save("s.pt"); return torch.jit.load("s.pt",map_location=d)(torch.randn(2,4,device=d),2).device
@t
def freeze(): return torch.jit.freeze(torch.jit.script(m))(x).device
@t
def ofi(): return torch.jit.optimize_for_inference(torch.jit.script(m))(x).device
@t
def jsave_fn(): torch.jit.save(torch.jit.script(m),"m.pt"); return torch.jit.load("m.pt")(x).device
@t
def ignore():
    class A(nn.Module):
        @torch.jit.export
        def foo(self,x:torch.Tensor): return x+1
        @torch.jit.ignore
        def bar(self,x:torch.Tensor)->torch.Tensor: return x
        def forward(self,x:torch.Tensor): return self.foo(x)
    return torch.jit.script(A().to(d)).foo(x).device
@t
def fork(): 
    f=torch.jit.fork(lambda a:a*2,x); return torch.jit.wait(f).device
@t
def rnn():
    r=nn.LSTM(4,8,2,bidirectional=True,batch_first=True).to(d); o,_=r(torch.randn(2,5,4,device=d)); p=nn.utils.rnn.pack_padded_sequence(torch.randn(2,5,4,device=d),[5,3],batch_first=True); o2,_=r(p); return nn.utils.rnn.pad_packed_sequence(o2,batch_first=True)[0].device
@t
def rnn_lengths_gpu():
    return nn.utils.rnn.pack_padded_sequence(torch.randn(2,5,4,device=d),torch.tensor([5,3],device=d),batch_first=True).data.device
@t
def ctc(): return nn.CTCLoss()(torch.randn(50,4,20,device=d).log_softmax(2),torch.randint(1,20,(4,10),device=d),torch.full((4,),50),torch.full((4,),10)).device
@t
def ctc_cpu_targets(): return nn.CTCLoss()(torch.randn(50,4,20,device=d).log_softmax(2),torch.randint(1,20,(40,),dtype=torch.int32),torch.full((4,),50,dtype=torch.int32),torch.full((4,),10,dtype=torch.int32)).device
@t
def mha(): 
    a=nn.TransformerEncoderLayer(8,2,batch_first=True).to(d).eval(); 
    with torch.no_grad(): return a(torch.randn(2,5,8,device=d),src_key_padding_mask=torch.zeros(2,5,dtype=torch.bool,device=d)).device
@t
def embbag(): return nn.EmbeddingBag(10,3,mode="sum").to(d)(torch.randint(0,10,(8,),device=d),torch.tensor([0,4],device=d)).device
@t
def embmax(): return nn.Embedding(10,3,max_norm=1.).to(d)(torch.randint(0,10,(8,),device=d)).device
@t
def adaptive(): return nn.AdaptiveLogSoftmaxWithLoss(8,20,[5,10]).to(d)(torch.randn(4,8,device=d),torch.randint(0,20,(4,),device=d)).loss.device
@t
def grid(): return nn.functional.grid_sample(x,torch.rand(2,4,4,2,device=d)).device
@t
def interp(): return nn.functional.interpolate(x,scale_factor=2,mode="bicubic",antialias=True).shape
@t
def fold(): return nn.functional.fold(nn.functional.unfold(x,3),(8,8),3).device
@t
def bn(): return nn.SyncBatchNorm.convert_sync_batchnorm(nn.BatchNorm2d(3)).to(d)(x).device
@t
def wn(): return nn.utils.parametrizations.weight_norm(nn.Linear(4,4)).to(d)(torch.randn(2,4,device=d)).device
@t
def sn(): return nn.utils.parametrizations.spectral_norm(nn.Linear(4,4)).to(d)(torch.randn(2,4,device=d)).device
@t
def orth(): return nn.utils.parametrizations.orthogonal(nn.Linear(4,4)).to(d)(torch.randn(2,4,device=d)).device
@t
def prune():
    import torch.nn.utils.prune as P
    l=nn.Linear(4,4).to(d); P.l1_unstructured(l,"weight",.3); return l(torch.randn(2,4,device=d)).device
@t
def swa():
    from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn, update_bn
    a=AveragedModel(m,multi_avg_fn=get_ema_multi_avg_fn(.9)); a.update_parameters(m); a.update_parameters(m); update_bn([x],a,device=d); return a(x).device
@t
def optims():
    out=[]
    for n in ["SGD","Adam","AdamW","Adagrad","Adadelta","RMSprop","Rprop","NAdam","RAdam","ASGD","Adamax","LBFGS","Adafactor","Muon"]:
        l=nn.Linear(4,4,bias=n!="Muon").to(d); o=getattr(torch.optim,n)(l.parameters(),lr=.01)
        def c(): o.zero_grad(); v=l(torch.randn(2,4,device=d)).pow(2).sum(); v.backward(); return v
        try: o.step(c); o.step(c)
        except Exception as e: out.append((n,str(e)[:80]))
    return out
@t
def sparseadam():
    e=nn.Embedding(10,3,sparse=True).to(d); o=torch.optim.SparseAdam(e.parameters()); e(torch.tensor([1,2],device=d)).sum().backward(); o.step(); return "x"
@t
def capturable(): 
    l=nn.Linear(4,4).to(d); o=torch.optim.Adam(l.parameters(),capturable=True); l(torch.randn(2,4,device=d)).sum().backward(); o.step(); return o.state[l.weight]["step"].device
@t
def dp(): return nn.DataParallel(nn.Linear(4,4).cuda(),device_ids=[0,1])(torch.randn(6,4,device="cuda")).device
@t
def comm(): return [a.device for a in torch.cuda.comm.scatter(torch.randn(4,2,device="cuda:0"),[0,1])], torch.cuda.comm.gather([torch.ones(2,device="cuda:0"),torch.ones(2,device="cuda:1")]).shape, torch.cuda.comm.reduce_add([torch.ones(2,device="cuda:0"),torch.ones(2,device="cuda:1")]).tolist()
@t
def nccl(): return torch.cuda.nccl.all_reduce([torch.ones(2,device="cuda:0"),torch.ones(2,device="cuda:1")])
@t
def nccl_v(): return torch.cuda.nccl.version(), torch.cuda.nccl.is_available([torch.ones(2,device="cuda:0")])

# /// expect
# must = "scripted modules work; the tracer is refused with tensors on a GPU"
# exit = 1
# prints = ["FAIL trace UnsupportedFeatureError", "ok   script_graph", "ok   script_save", "ok   freeze", "ok   jsave_fn", "ok   sparseadam"]
# never = ["INTERNAL ASSERT"]
# ///
