"""Stories that quote code or tell what is done first: modules in lists, moves for nothing, order of steps."""

# ruff: noqa: E501, RUF001 # a story is one line, and Chinese has its own punctuation

from __future__ import annotations

import pytest

from samedevice.diagnosis import explain_text
from samedevice.diagnosis.story._code import dropped_moves, modules_kept_in_containers, statements_in
from samedevice.diagnosis.story._steps import precedes
from samedevice.report import render

LEFT = "module-left-on-other-device"
STATE = "optimizer-state-on-other-device"
INPUT = "input-not-on-embedding-device"
LABELS = "loss-or-label-on-other-device"
MADE = "tensor-created-on-wrong-device"

STORIES = [
    (
        "A dict holds one head per task: self.heads = {k: nn.Linear(256, n) for k, n in tasks.items()}. After "
        "model.to(device) the encoder is fine and the first head raises: at least two devices, cpu and cuda:0.",
        LEFT,
        "self.heads",
    ),
    (
        "In __init__ I write self.convs = [] and in a loop self.convs.append(GraphConv(64, 64)). model.cuda() is "
        "called later. The first graph conv dies, the message is about cuda and cpu.",
        LEFT,
        "self.convs",
    ),
    (
        "The U-Net keeps its skip convs in a normal Python list. The images are on cuda; it says Input type "
        "(torch.cuda.FloatTensor) and weight type (torch.FloatTensor) should be the same.",
        LEFT,
        "weight",
    ),
    (
        "模型里用 self.layers = [EncoderLayer(d) for _ in range(6)] 存了六层，训练前调用了 model.to('cuda')，输入也搬到了 cuda。"
        "结果第一层说输入是 torch.cuda.FloatTensor，权重是 torch.FloatTensor。",
        LEFT,
        "self.layers",
    ),
    (
        "All blocks are in self.blocks = nn.ModuleList([Block(64) for _ in range(4)]) and net.to('cuda') was "
        "called. Block.forward has pos = torch.arange(x.shape[1]) and fails there: two devices, cuda:0 and cpu.",
        MADE,
        None,
    ),
    (
        "I moved the network with net.to(device). Then in the loop:\n\n    x.to(device)\n    pred = net(x)\n\n"
        "and it fails in the first layer: the input is on the cpu, the weights are on cuda.",
        INPUT,
        "x",
    ),
    (
        "No error, but nvidia-smi shows 0% all the time. There is the line batch.cuda() and behind it "
        "out = model(batch); for some export the model was put on the CPU by model = model.cpu().",
        INPUT,
        "batch",
    ),
    (
        "In the loop I wrote inputs = inputs.to(device) but for the other one only labels.to(device), without "
        "assigning. criterion(model(inputs), labels) then says cuda:0 and cpu.",
        LABELS,
        "labels",
    ),
    (
        "模型已经 model.to(device) 了，循环里也写了 imgs.to(device)，然后 out = model(imgs)，还是报 cuda:0 和 cpu 不在同一设备。",
        INPUT,
        "imgs",
    ),
    (
        "训练循环里写了 x = x.to(device)，标签只写了 labels.to(device) 没有赋值，算 loss 的时候报两个设备 cuda:0 和 cpu。",
        LABELS,
        "labels",
    ),
    (
        "DQN: policy_net is created, then target_net is a copy of the policy network, then I send policy_net to "
        "the GPU. Acting is fine, the values of the target fail: same device error, cpu and cuda:0.",
        LEFT,
        None,
    ),
    (
        "Mean teacher: before I move the student model to the GPU, teacher = deepcopy(student) is done. The "
        "teacher's forward raises, the weights of the teacher are on the CPU and the batch on cuda:0.",
        LEFT,
        None,
    ),
    (
        "知识蒸馏，教师网络是在学生网络搬到 GPU 之前用 deepcopy 复制出来的。学生前向没问题，教师前向报错：权重在 cpu，输入在 cuda:0。",
        LEFT,
        None,
    ),
    (
        "I restore like this: create net, create Adam, optim.load_state_dict(state['optim']), and then "
        "net.to('cuda'). At the first optim.step() it is cuda:0 and cpu.",
        STATE,
        None,
    ),
    (
        "断点续训时在 optimizer.step() 报错，cuda:0 和 cpu 两个设备。顺序是：建模型，建优化器，加载优化器状态，最后 model.cuda()。",
        STATE,
        None,
    ),
    (
        "model.cuda() comes first, and after that I replace the classifier: model.fc = nn.Linear(2048, 7). The "
        "forward pass complains that weights are on CPU while the input is on cuda:0.",
        LEFT,
        None,
    ),
    (
        "先 model.to('cuda')，之后把最后一层换成新的分类头 model.head = nn.Linear(768, 5)，前向时报设备不一致，cpu 和 cuda:0。",
        LEFT,
        None,
    ),
]


@pytest.mark.parametrize(("text", "cause", "guilty"), STORIES)
def test_stories(text, cause, guilty):
    finding = explain_text(text)[0]
    assert (finding.cause, finding.confidence, finding.guilty) == (cause, "likely", guilty)


@pytest.mark.parametrize(
    ("text", "advice"),
    [
        (STORIES[0][0], "nn.ModuleList"),
        (STORIES[3][0], "nn.ModuleList"),
        (STORIES[5][0], "x = x.to(device)"),
        (STORIES[8][0], "x = x.to(device)"),
    ],
)
def test_advice(text, advice):
    cure = explain_text(text)[0].cure
    assert advice in render(cure)
    assert advice in render(cure, "zh")


@pytest.mark.parametrize(
    "text",
    [
        "Here is what I use: self.stages = [Stage(3) for _ in range(2)] and net.to('cuda'). What is missing here?",
        "The message shows torch.cuda.HalfTensor once and torch.HalfTensor once, in the line behind x.to(device).",
        "网络已经 .cuda() 了，运行到中间那一行还是不行，请问是哪里没有写对？",
    ],
)
def test_what_moves_tensors_is_never_said_to_be_no_device_error(text):
    assert explain_text(text)[0].cause != "not-a-device-error"


@pytest.mark.parametrize(
    ("text", "sure"),
    [
        ("A copy of the model is made for export, then model.cuda(). My loss has cuda:0 and cpu.", False),
        (
            "self.augment = [Crop(32), Flip()] and model.cuda(). Somewhere cuda:0 and cpu meet, it fails.",
            False,
        ),
        ("opt.load_state_dict(s), then model.cuda(). The forward pass fails, cuda:0 and cpu.", False),
    ],
)
def test_an_order_that_the_failure_does_not_name_is_a_guess(text, sure):
    assert (explain_text(text)[0].confidence == "likely") is sure


@pytest.mark.parametrize(
    "text",
    [
        "I changed self.blocks = [Block(3) for _ in range(4)] to nn.ModuleList, and it still fails with cuda:0 and cpu.",
        "teacher = deepcopy(student) is made, then both networks are moved: student.cuda(). In the teacher's forward cuda:0 and cpu meet.",
        "First model.cuda(), and later model.fc = nn.Linear(8, 2).cuda(). It still fails with cuda:0 and cpu.",
        "The inputs are on cuda:0, I see it. x.to(device), out = model(x), and something is on cpu, it fails.",
    ],
)
def test_what_is_in_order_is_not_said_to_be_the_cause(text):
    finding = explain_text(text)[0]
    assert finding.confidence == "guess" or finding.cause not in (LEFT, INPUT)


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        (
            "nvidia-smi lists four processes on GPU 0 and one on each of the others, and GPU 0 runs out of memory.",
            "rank-device-not-set",
        ),
        (
            "model = Bert.from_pretrained(path).cuda().eval(). Then enc = tok(text, return_tensors='pt') and "
            "out = model(**enc): the lookup fails, cuda:0 and cpu.",
            INPUT,
        ),
        (
            "The teacher isn't moved anywhere, student.to(device) is there. teacher(x) fails: weights on cpu, x on cuda:0.",
            LEFT,
        ),
        ("数据 x = x.to(device) 写了，标签 y 忘了搬，算交叉熵的时候报两个设备 cuda:0 和 cpu。", LABELS),
        (
            "criterion = nn.CrossEntropyLoss(weight=torch.tensor(w).float()), the network and the batch are on "
            "cuda:0. loss = criterion(out, y) fails with cuda:0 and cpu.",
            LABELS,
        ),
    ],
)
def test_more_stories(text, cause):
    assert explain_text(text)[0].cause == cause


@pytest.mark.parametrize(
    ("text", "before"),
    [
        ("I deepcopy the model and then move the model to the GPU", True),
        ("after I moved the model to the GPU I make a copy of the model", False),
        ("a copy of the model is made before I move it to the GPU", True),
        ("before I move the model to the GPU there is a copy of the model", True),
        ("the copy of the model is made after I moved the model to the GPU", False),
        ("I move the model to the GPU. Earlier there was a deepcopy(model)", True),
        ("先复制模型，再把模型搬到 GPU", True),
        ("模型搬到 GPU 之前就复制了模型", True),
        ("模型搬到 GPU 之后再复制模型", False),
        ("there is a copy of the model", None),
    ],
)
def test_order_of_steps(text, before):
    assert precedes(text, "copy", "move") is before


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("x.to(device) and then out = model(x)", ("x",)),
        ("x = x.to(device) and then out = model(x)", ()),
        ("model.to(device) and then out = model(x)", ()),
        ("x.to(torch.float16) and then out = model(x)", ()),
        ("x.to('cpu') and then save(x)", ()),
        ("for v in batch.values(): v.to(device)\nout = model(**batch)", ("batch",)),
        ("head = Linear(3, 4), head.cuda(), then wrap(head)", ()),
    ],
)
def test_moves_for_nothing(text, names):
    assert dropped_moves(text) == names


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("self.a = [nn.Linear(2, 2), nn.ReLU()]", ("self.a",)),
        ("self.a = {'x': Head(2)}", ("self.a",)),
        ("self.a = tuple(Head(i) for i in x)", ("self.a",)),
        ("self.a = nn.ModuleList([Head(i) for i in x])", ()),
        ("self.a = [1, 2] and self.b = [torch.zeros(2)]", ()),
        ("self.a = [], self.a.append(Head(2))", ("self.a",)),
        ("self.a = nn.ModuleList(), self.a.append(Head(2))", ()),
    ],
)
def test_modules_in_containers(text, names):
    assert modules_kept_in_containers(text) == names


@pytest.mark.filterwarnings("error")
def test_quoted_paths_raise_no_warning():
    explain_text(r"m = load('C:\data\pose.pt'), x.to(device), out = m(x) fails with cuda:0 and cpu.")


def test_quoted_code_is_read_in_time():
    statements_in("a" * 5000 + "x = (" * 4000 + "[" * 3000 + "f(g(" * 2000)
    precedes("move the copy of the model before after " * 800, "copy", "move")
