import os, torch, multiprocessing as mp, subprocess, sys
def child(i):
    x = torch.ones(4, device=f"cuda:{i}") + torch.ones(4)
    print("child", i, x.device, flush=True)
if __name__ == "__main__":
    for m in ("fork","spawn"):
        ctx = mp.get_context(m)
        ps = [ctx.Process(target=child, args=(i,)) for i in range(2)]
        [p.start() for p in ps]; [p.join() for p in ps]
        print(m, [p.exitcode for p in ps])
    pid = os.fork()
    if pid == 0:
        child(0); os._exit(0)
    os.waitpid(pid, 0)
    print(subprocess.run([sys.executable, "-c", "import torch; print(torch.cuda.device_count(), torch.cuda.get_device_name(0))"], env={**os.environ, "CUDA_VISIBLE_DEVICES": "1"}, capture_output=True, text=True))
    print(subprocess.run("nvidia-smi -L; nvidia-smi --query-gpu=memory.total --format=csv", shell=True, capture_output=True, text=True))
    try:
        import pynvml; pynvml.nvmlInit(); print(pynvml.nvmlDeviceGetCount())
    except Exception as e: print("pynvml", repr(e))
    print(torch.cuda.memory_summary()[:300])
    print(torch.cuda.get_device_properties(0), torch.cuda.mem_get_info(), torch.cuda.utilization() if 0 else "", torch.cuda.get_arch_list()[:2], torch.version.cuda, torch.backends.cudnn.is_available())
    print(torch.cuda.memory_snapshot()[:1], torch.cuda.list_gpu_processes()[:200])

# /// expect
# must = "the fix takes the device of x, or is not called safe"
# exit = 1
# long = true
# ///
