import multiprocessing as mp, torch
def w(i): print(i, torch.cuda.device_count())
if __name__=="__main__":
    ps=[mp.get_context("spawn").Process(target=w,args=(i,)) for i in range(2)]
    [p.start() for p in ps];[p.join() for p in ps]

# /// expect
# must = "silence: nothing is left behind"
# exit = 0
# never = ["left behind"]
# ///
