import torch, torch.multiprocessing as mp
def w(rank,q,q2,t):
    torch.cuda.set_device(rank); t.add_(rank+1); x=torch.full((3,),float(rank),device=f"cuda:{rank}"); q.put(("cpu",x.cpu())); q2.get()
def wc(rank,q,q2):
    x=torch.full((3,),float(rank),device=f"cuda:{rank}"); q.put(x); q2.get()
if __name__=="__main__":
    ctx=mp.get_context("spawn"); q=ctx.Queue(); q2=ctx.Queue(); t=torch.zeros(2).share_memory_()
    ps=[ctx.Process(target=w,args=(r,q,q2,t)) for r in range(2)]; [p.start() for p in ps]; print(q.get(),q.get()); q2.put(1); q2.put(1); [p.join() for p in ps]; print(t, [p.exitcode for p in ps])
    mp.spawn(w,args=(q,q2,t),nprocs=0) if False else None
    print("now cuda tensors through a queue")
    p=ctx.Process(target=wc,args=(1,q,q2)); p.start(); y=q.get(timeout=60); print(y, y.device); del y; q2.put(1); p.join(); print(p.exitcode)

# /// expect
# must = "CUDA tensors go through a queue with their values"
# exit = 0
# prints = ["tensor([1., 1., 1.], device='cuda:1') cuda:1"]
# ///
