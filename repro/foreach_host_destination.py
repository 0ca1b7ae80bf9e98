# host state in place, GPU operands without values (above 1 MiB): record mode dies with a message about "meta"
import torch
N = 600 * 600
def t(n, f):
    try: f(); print(n, "ok")
    except Exception as e: print(n, type(e).__name__, str(e)[:90])
cpu = lambda: torch.zeros(N); gpu = lambda: torch.ones(N, device="cuda") * 2
t("add_", lambda: cpu().add_(gpu()))
t("addcmul_", lambda: cpu().addcmul_(gpu(), gpu()))
t("lerp_", lambda: cpu().lerp_(gpu(), 0.1))
t("_foreach_add_", lambda: torch._foreach_add_([cpu()], [gpu()]))
t("_foreach_addcmul_", lambda: torch._foreach_addcmul_([cpu()], [gpu()], [gpu()]))
t("_foreach_lerp_", lambda: torch._foreach_lerp_([cpu()], [gpu()], 0.1))
t("_foreach_mul_", lambda: torch._foreach_mul_([cpu()], [gpu()]))
t("small _foreach_addcmul_", lambda: torch._foreach_addcmul_([torch.zeros(3)], [torch.ones(3, device="cuda")], [torch.ones(3, device="cuda")]))
t("mixed _foreach_add_", lambda: torch._foreach_add_([torch.zeros(3), cpu()], [torch.ones(3, device="cuda"), gpu()]))
t("where", lambda: torch.where(cpu() > 0, gpu(), gpu()))
t("cat", lambda: torch.cat([cpu(), gpu()]))
t("linear", lambda: torch.nn.functional.linear(torch.zeros(600, 600), gpu().view(600, 600)))
t("copy_", lambda: cpu().copy_(gpu()))
t("index_add_", lambda: cpu().index_add_(0, torch.arange(N, device="cuda"), gpu()))
t("scatter", lambda: cpu().scatter_(0, torch.arange(N), gpu()))
t("out=", lambda: torch.add(gpu(), gpu(), out=cpu()))
for opt in (torch.optim.Adam, torch.optim.AdamW, torch.optim.SGD, torch.optim.RMSprop, torch.optim.Adagrad):
    def f():
        p = torch.nn.Parameter(gpu()); kw = dict(momentum=.9) if opt is torch.optim.SGD else {}
        o = opt([p], lr=1e-3, **kw); p.grad = gpu(); o.step()
        for s in o.state.values():
            for k, v in s.items():
                if torch.is_tensor(v) and v.dim(): s[k] = v.cpu()
        o.step()
    t("state on host " + opt.__name__, f)

# /// expect
# must = "each found, and the run goes on"
# exit = 1
# never = ["Error"]
# ///
