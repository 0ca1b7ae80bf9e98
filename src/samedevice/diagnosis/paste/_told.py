"""What prose states, in English or Chinese: facts, without judgement.

Which things are on which devices, how the program was started, how the model was placed, what works and what
fails.
"""

# ruff: noqa: E501, RUF001 # patterns of whole phrases; Chinese has its own punctuation

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import pairwise

from samedevice.diagnosis.paste._pattern import Pattern
from samedevice.diagnosis.paste._tried import without_attempts

_FLAGS = re.IGNORECASE | re.ASCII
"""A Chinese character beside a Latin word ends the word."""
_CLAUSE = Pattern(
    r"[,;，；：。！？、!?\n]|[.:](?=\s|$)|\s(?:but|while|although|however|when|whenever)\s|但是?|不过|然而"
)
_NEW_SENTENCE = Pattern(r"[。！？!?\n]|\.(?=\s|$)")
# `cuda8` and `cuda9` are releases of CUDA.
_DEVICE = Pattern(
    r"\b(?P<gpu>cuda:\d{1,3}|cuda[0-7](?![\d.]))\b|\b(?:GPU|card)\s?(?:#|number |no\.? |device )?(?P<number>\d{1,2})\b|(?P<card>\d{1,2})\s?号(?:卡|GPU)|第(?P<nth>[一二三四五六七八\d])(?:张卡|块GPU)"
    r"|(?P<host>\bCPU\b|\bthe host\b|\btorch\.(?:Float|Half|Double|BFloat16|Long|Int|Short|Byte|Char|Bool)Tensor\b(?!\()|主机内存|内存)|(?P<any>\btorch\.cuda\.\w{2,12}Tensor\b|\bcuda\b(?!:)|\bthe GPU\b|\bGPU\b(?!\s?\d)|(?<=\bon )(?:the|an) accelerator\b|(?<=\bon )the card\b|显卡|(?<=在)显存(?=里|上|中))",
    _FLAGS,
)
_PAIR = Pattern(
    r"(\b(?:cuda:\d{1,2}|cpu))\s?[,，、]\s?(?=(?:cuda:\d{1,2}|cpu)\b\W{0,3}(?:[.,;!?。，；！？)\n]|$))",
    _FLAGS,
)
"""Two devices that end a clause: `torch.cat complains: cuda:1, cuda:0.`"""
_AND = Pattern(r"\s?(?:and|vs\.?|versus|和|与|及|/|、)\s?")
_FROM = Pattern(r"\s(?:from|of|in|by)\s(?:the\s|my\s|our\s|a\s)?", _FLAGS)
_WIDE = Pattern(r"(\bcuda)：(?=\d)", _FLAGS)
_NTH = Pattern(r"\b(?:1st|2nd|3rd)\b", _FLAGS)
_SPELT = {"1": "first", "2": "second", "3": "third"}
_NUMERALS = {"一": 0, "二": 1, "三": 2, "四": 3, "五": 4, "六": 5, "七": 6, "八": 7}
_ROLES: tuple[tuple[str, str], ...] = (
    (
        "cache",
        r"past_key_values?(?:\[\d\])?|past_kv|layer_past|key_cache|\bcached (?:keys?|values?|kv)\b|\bpast (?:keys?|values?)\b|kv[ _-]?cache|\b\w{0,20}cache\b|缓存|\bhidden state\b|(?:stored|kept|old) hidden \w+|recurrent state",
    ),
    ("keys", r"key[_ ]states|value[_ ]states|new keys?\b"),
    (
        "extra",
        r"second_per_grid_ts?|\bseconds? per grid|\w{2,20}_grid_thw|pixel_values\w*|image_sizes|audio_features|position_ids|cu_seqlens",
    ),
    ("optimizer", r"exp_avg\w*|state_steps|momentum_buffer|optimi[sz]er states?|优化器(?:的)?状态"),
    ("adapter", r"\blora_\w+|\badapter(?: weights)?\b|适配器"),
    (
        "rotary",
        r"\b\w{0,40}rotary_emb\w{0,40}|\binv_freq\b|\bfreqs_cis\b|\b(?:cos|sin)(?:_cached)?\b|rotary (?:embedding|table|module)|旋转(?:位置)?编码",
    ),
    (
        "quantised",
        r"quant_state|\bq(?:weight|zeros)\b|\babsmax\b|\bg_idx\b|\bzero[- ]?points?\b|\bscales?\b|\bcodebook\b",
    ),
    (
        "vision",
        r"\b(?:image|vision|visual|video|audio|speech)_?(?:features?|embeds?|embeddings?|tokens?|tower|encoder)\b|图像特征|视觉特征",
    ),
    ("labels", r"\blabels?\b|\btargets?\b|\badvantages?\b|\brewards?\b|\blog[_ ]?prob\w*|\blogps\b|标签"),
    ("mask", r"\b(?:causal |attention )?mask\b(?!_)|掩码"),
    (
        "embedding",
        r"\b\w{0,40}embed_tokens|\bwte\b|word_?embeddings?|\bembedding(?:s| layer| table| weight)?\b|词?嵌入(?:层|表|查表)?|embedding\s?层",
    ),
    (
        "ids",
        r"\binput_ids\b|\battention_mask\b|\bmodel_inputs\b|\bids\b|\binputs?\b|(?:tokeni[sz]ed )?\bprompts?\b|输入",
    ),
    ("outputs", r"\blogits\b|\boutputs?\b|\bloss\b"),
    ("weights", r"\bweights?\b|\bparameters?\b|\bmat2\b|权重|参数"),
    (
        "model",
        r"\bmodel\b|模型|\bhead\b|\b\w*(?:encoder|decoder|discriminator|generator|projector|classifier|network|backbone|teacher|student|critic|module|layers?)\b|基座|(?:编码|解码|生成|判别|分类|投影)器|主干",
    ),
    (
        "tensor",
        r"\bmat[12]\b|\b(?:position(?:al)? )?encodings?\b|\bnoise\b|\bindices\b|\bindex\b(?=\s?(?:is|on|在))|\b(?!(?:they|it|which|that|this|these|those|both|all|everything)\b)[a-z]\w{0,30}(?=\s(?:is|are|stays?|remains?|lives?|was|were)\s(?:still\s)?(?:on|in)\s)|\b[a-z]\w{0,30}_\w{1,40}\b(?!\s?[=(])",
    ),
)
THING = Pattern("|".join(f"(?P<{name}>{pattern})" for name, pattern in _ROLES), _FLAGS)
"""A thing that prose names; the group that matches is its role."""
_MESSAGE = Pattern(r"\bat least two devices|\ball tensors to be on the same device", _FLAGS)
"""Words of a message whose devices are not those of what was named before it."""
_NOT_MOVED = Pattern(
    r"(?P<thing>(?:(?:hidden|cell|recurrent) )?[\w.]{1,40}) (?:(?:is|are|was|were|has|have) (?:been )?(?:not|never)) (?:been )?(?:moved|sent|transferred|put on|(?:set|moved|put|placed|sent) (?:to|on) the same device|\.cuda\(\)|\.to\()"
    r"|\b(?:do|does|did) not (?:move|place|put|send|transfer) (?:the |its |my )?(?:other |remaining |rest of the )?(?P<others>[\w.]{1,40})"
    r"|\b(?:because|since|as) only (?:the |my )?[\w.]{1,40}(?: is| was)?,? (?:and |but )?not (?:the |my )?(?P<beside>[\w.]{1,40}),? (?:is|are|was|were|gets?|being|to be) (?:moved|sent|transferred|put|placed)\b"
    r"|(?P<gone>[\w.]{1,40}) (?:is|was|are|were) forgotten|(?:forgot|forgotten|forget) to (?:move|send|put|transfer) (?:the |my )?(?P<forgotten>[\w.]{1,40})|never (?:moved|sent|put) (?:the |my )?(?P<never>[\w.]{1,40})|did you (?:\w+ )?(?:move|send|put|transfer) (?:the |your |its )?(?P<asked>[\w.]{1,40})[^?\n]{0,30}\?(?:(?!\byes\b|\bI did\b)[^?]){0,40}?\b(?:no|nope|forgot|did not|that was (?:it|the))\b|(?:not|never) (?:\w+ )?(?:call|called|use|used) \.(?:cuda|to)\([^()\n]{0,20}\) (?:on|for) (?:the |my )?(?P<uncalled>[\w.]{1,40})|(?P<rest>[\w.]{1,40}) I (?:leave|left)\b|\bI (?:leave|left) (?:the )?(?P<kept>[\w.]{1,40})"
    r"|(?:忘了|忘记|没有?)(?:把|将)\s?(?P<zh>[\w.]{1,40}?)\s?(?:搬|移|放|送|\.to|\.cuda)|(?P<noun>模型|标签|输入|数据)\s?[A-Za-z_]\w{0,20}\s?(?:没有?|忘了|忘记)\s?(?:搬|移|放|送|\.?to\b|\.?cuda\b)|(?P<left>[A-Za-z_][\w.]{1,40}|模型|标签|输入|数据|(?:编码|解码|生成|判别|投影)器|网络|主干)\s?(?:没有?|忘了|忘记)\s?(?:搬|移|放|送|\.?to\b|\.?cuda\b)",
    _FLAGS,
)
_SPREAD = Pattern(
    r"device_map\W{0,12}(?:auto|balanced\w{0,12}|sequential)|\b(?:automatic|auto)[- ](?:device[_ ])?(?:map|placement)|自动(?:的)?(?:设备)?(?:映射|分配|切分)|加载(?:方式)?[^。，\n]{0,8}\bauto\b",
    _FLAGS,
)
_PROCESSES = Pattern(
    r"(?:nproc[_-]per[_-]node|num_processes|num_gpus)[ =]{1,2}(?P<option>\d{1,4})|\b(?P<said>\d{1,4}) (?:processes|ranks)\b|(?P<zh>\d{1,4})\s?个进程|nprocs=(?P<spawn>\d{1,4})",
    _FLAGS,
)
_PARALLEL = Pattern(
    r"\b(?:DDP|FSDP2?|DistributedDataParallel|ZeRO[- ]?[123]|each process|every process|each rank)\b|每个进程|数据并行|分布式(?:训练|微调)|distributed (?:training|fine-?tuning)\b(?!\W{1,3}(?:false|no|none|off)\b)",
    _FLAGS,
)
_SIZE = Pattern(r"(?<![\w.])(?P<size>\d{1,3}(?:\.\d{1,2})?)\s?B\b(?!\s?(?:/s|ytes))", _FLAGS)
_FAILS = Pattern(
    r"\bfail(?:s|ed|ing)?\b|\bdies\b|\bdied\b|\bstops?\b|\berrors?\b|\bcrash\w*|\bbreaks?\b|\bonly\b|complains|\bfalls? over\b|\bblows? up\b|\bchokes?\b|报(?!告|名|表)|不行|失败|只有|唯独|仅|出错|挂了|崩|跑不(?:起来|了|动|通)",
    _FLAGS,
)
_WORKS = Pattern(
    r"\bwork(?:s|ed|ing)?\b|\bruns?\b|\bfine\b(?![- ]?tun)|\bok(?:ay)?\b|without (?:a |any )?(?:problem|error)|\banswers?\b|no (?:problem|error)|\btrains\b|没事|不会出现|不会报错|正常|能跑|可以(?:跑|运行)?|没问题|没有(?:任何)?问题",
    _FLAGS,
)
_ALONE = Pattern(r"\bonly\b|唯独|只有|偏偏", _FLAGS)
"""That something happens to one thing alone."""
_SAYS = Pattern(
    r"complain\w*|\berrors?\b|\bfail\w*|\bfound\b|\bexpect\w*|mismatch|\bsay(?:s|ing)?\b|\btells?\b|\brais\w+|\bstops?\b|\bcrash\w*|\bdies\b|\bspeaks?\b|\bmessage\b|报|提示|不一致|说",
    _FLAGS,
)
_ENDED = Pattern(
    r"\brais(?:es|ed)\b|\brefus\w+|\bbreaks\b|\bthrows\b|挂了?|\b(?:[A-Z]\w+E|e)rrors?\b|\bfail\w*|\bcrash\w*|\bdies\b|\bstops?\b|complain\w*|exception|mismatch|\bcan(?:not|'t)\b|报|出错|不一致|停下",
    _FLAGS,
)
_SENTENCE = Pattern(r"[。！？!?\n;；]|\.(?=\s|$)")
_STANDS = Pattern(r"(?:在|\bon(?: the)?)\s?(?:cuda|cpu|GPU)", _FLAGS)
_PACE = Pattern(
    r"tokens?\b[^.\n]{0,12}(?:/ ?s|second)|\bslow\w*|\bfast\w*|\bquick\w*|\bspeed\b|\bmemory\b|速度|慢|快|显存",
    _FLAGS,
)
_GPUS = Pattern(
    r"\b(?P<digits>\d{1,3})\s?(?:x|×|\*)\s?(?:[A-Z]{0,3}\s?\d{2,4}\w{0,4}|NVIDIA|RTX|GPUs?\b)|\b(?P<plain>\d{1,3}) (?:GPUs?|cards)\b|(?P<zh>\d{1,3}|两|四|八)\s?(?:张|块)"
    r"|\b(?P<word>two|three|four|eight) (?:GPUs?|cards|\w{1,10} ?\d{4}s?)",
    _FLAGS,
)
_COUNTS = {"two": 2, "three": 3, "four": 4, "eight": 8, "两": 2, "四": 4, "八": 8}
_CHOSEN = Pattern(
    r"--?(?:device|gpu|gpu[-_]ids?|device[-_]ids?|cuda[-_]device)(?:[ =:]{1,3}|\s)['\"]?(?:cuda:)?(?P<option>[1-9]\d?)\b"
    r"|\b(?:devices?|gpu_?ids?|device_?ids?)['\"]?(?:\s?[=:]\s?|\s['\"](?=cuda))(?:torch\.device\()?['\"]?(?:cuda:)?(?P<given>[1-9]\d?)\b"
    r"|set_device\((?P<set>[1-9]\d?)\)|(?:指定(?:了)?\s?(?:cuda:|GPU ?)?|(?:用|跑在|换成|改成|选了?)\s?(?:cuda ?:?|GPU ?))(?P<zh>[1-9]\d?)"
    r"|\b(?:everything|all|model|batches|tensors)\b[^.,;\n]{0,30}\b(?:is|are) on cuda:(?P<all>[1-9]\d?)\b"
    r"|\b(?:given|got|assigned|get) (?:the )?(?:GPU|card) ?(?:#|number )?(?P<got>[1-9]\d?)\b"
    r"|\b(?:choos(?:e|ing)|chose|select(?:ed|ing)?|us(?:e|ing)|run(?:ning)? (?:it )?on|set to|(?:chang|switch)(?:e|ed|es|ing) (?:it |that |the \w+ |from \S+ )?to)\s(?:the )?(?:cuda:|GPU ?#?|card )(?P<said>[1-9]\d?)\b",
    _FLAGS,
)
_ALL_ON_ONE = Pattern(r"\{\s*['\"]{2}\s*:\s*(\d{1,3})\s*\}")
_RANK_OPTION = Pattern(r"--nproc[_-]per[_-]node|--local[_-]rank|\blocal_rank\b")
_WORDS = Pattern(r"[A-Za-z]{2,}|[\u4e00-\u9fff]")


@dataclass(frozen=True, slots=True)
class Told:
    """The facts that prose states."""

    words: int = 0
    """How long it is; a Chinese character counts for one."""
    places: tuple[tuple[str, str, str], ...] = ()
    """Role, words and device of each thing whose device is stated: `("embedding", "embed_tokens", "cuda:1")`."""
    spread: bool = False
    """Whether an automatic device map places the model."""
    on_one: str | None = None
    """The GPU that such a map puts the whole model on, where it is stated."""
    launched: bool = False
    """Whether several processes are started."""
    gpus: int = 0
    chosen: tuple[str, ...] = ()
    """GPUs other than the first that an option or a device in code chooses."""
    fails: tuple[float, ...] = ()
    """Sizes of the models that fail, in billions."""
    works: tuple[float, ...] = ()
    met: tuple[str, ...] = ()
    """Two devices that one clause names where it tells of an error."""
    ended: bool = False
    """Whether it tells of an error, of whatever kind."""
    left: tuple[tuple[str, str], ...] = ()
    """Role and word of each thing that is stated never to have been moved."""
    roles: frozenset[str] = frozenset()
    """Every role that is named, with a device or without."""
    text: str = ""
    evidence: str = ""
    """The text without what was tried in vain."""

    def devices_of(self, *roles: str) -> tuple[str, ...]:
        """The devices of the things in one of these roles, as stated."""
        return tuple(dict.fromkeys(device for role, _, device in self.places if role in roles))

    def named(self, *roles: str) -> str:
        """How the first thing in one of these roles is called; its role when it is only implied."""
        return next((word for role, word, _ in self.places if role in roles), roles[0])

    def apart(self, one: tuple[str, ...], other: tuple[str, ...]) -> bool:
        """Whether things of one kind are stated to be elsewhere than those of the other."""
        first, second = self.devices_of(*one), self.devices_of(*other)
        return bool(first and second) and not any(_same(a, b) for a in first for b in second)

    def says(self, pattern: str) -> bool:
        """Whether the prose says this, and not of something that was tried in vain."""
        return re.search(pattern, self.evidence, _FLAGS) is not None

    def sentences(self) -> list[str]:
        """The sentences, without what was tried in vain."""
        return [each for each in _SENTENCE.split(self.evidence) if each.strip()]

    def mentions(self, pattern: str) -> bool:
        """Whether the prose has this anywhere."""
        return re.search(pattern, self.text, _FLAGS) is not None


def launch_in(text: str) -> str | None:
    """The command, or the variable of one, by which a text shows that several processes were started."""
    found = _commands().search(text) or _RANK_OPTION.search(text)
    return found[0] if found else None


@cache
def _commands() -> Pattern:
    """The commands that start several processes, as they are typed; the table of launchers comes in here."""
    from samedevice.launchers import LAUNCHERS

    started = (each for each in LAUNCHERS if each.starts)
    typed = {" ".join(words) for each in started for words in (*each.commands, *each.modules) if words}
    return Pattern("|".join(map(re.escape, sorted(typed, key=len, reverse=True))) or r"(?!)", _FLAGS)


def told_in(text: str) -> Told:
    """The facts of a prose text."""
    text = _WIDE.sub(r"\g<1>:", text)
    text = _PAIR.sub(r"\g<1> and ", _NTH.sub(lambda found: _SPELT[found[0][0]], text))
    fails, works = _outcomes(text)
    counts = [_count(each) for each in _PROCESSES.finditer(text)]
    all_on = _ALL_ON_ONE.search(text)
    ended = _ENDED.search(text) is not None
    return Told(
        words=len(_WORDS.findall(text)),
        places=tuple(_places(text)),
        spread=_SPREAD.search(text) is not None,
        on_one=f"cuda:{all_on[1]}" if all_on else None,
        launched=any(count > 1 for count in counts)
        or (not counts and bool(_commands().search(text) or _PARALLEL.search(text))),
        gpus=max((_count(each) for each in _GPUS.finditer(text)), default=0),
        chosen=tuple(dict.fromkeys(f"cuda:{_count(each)}" for each in _CHOSEN.finditer(text))),
        fails=fails,
        works=works,
        met=_met(text, ended),
        ended=ended,
        left=tuple(_left(text)),
        roles=frozenset(each.lastgroup for each in THING.finditer(text) if each.lastgroup),
        text=text,
        evidence=without_attempts(text),
    )


def _count(found: re.Match[str]) -> int:
    text = next(group for group in found.groups() if group)
    return _COUNTS.get(text.lower()) or (int(text) if text.isdecimal() else 0)


def _clauses(text: str) -> Iterator[tuple[str, bool]]:
    """The clauses of a text, and whether each begins a sentence."""
    start, fresh = 0, True
    for found in _CLAUSE.finditer(text):
        if text[start : found.start()].strip():
            yield text[start : found.start()], fresh
            fresh = False
        fresh = fresh or _NEW_SENTENCE.match(found[0]) is not None
        start = found.end()
    if text[start:].strip():
        yield text[start:], fresh


def _places(text: str) -> Iterator[tuple[str, str, str]]:
    """Each device that is stated belongs to the thing before it, and to those joined with that.

    Else it belongs to the next thing behind it.
    """
    waiting: list[_Thing] = []
    for clause, fresh in _clauses(text):
        quoted = _MESSAGE.search(clause)
        waiting = [] if fresh or quoted else [each for each in waiting if not each.in_code]
        position = quoted.end() if quoted else 0
        devices = list(_DEVICE.finditer(clause))
        for number, device in enumerate(devices):
            waiting += _things(clause, position, device.start())
            position = device.end()
            after = devices[number + 1] if number + 1 < len(devices) else None
            if len(waiting) > 1 and after is not None and _AND.fullmatch(clause, position, after.start()):
                yield waiting[-2].role, waiting[-2].word, _device(device)
                waiting = waiting[-1:]  # "ids and embedding are on cuda:0 and cuda:1"
                continue
            if not waiting:
                end = after.start() if after is not None else len(clause)
                waiting = _things(clause, position, end)[:1]
                position = end if waiting else position
            for each in _joined(waiting):
                yield each.role, each.word, _device(device)
            waiting = []
        waiting += _things(clause, position, len(clause))


@dataclass(frozen=True, slots=True)
class _Thing:
    """A thing that a clause names."""

    role: str
    word: str
    joins: bool
    """Whether it is joined with the thing before it: `input_ids and attention_mask`."""
    in_code: bool
    """Whether it stands among the arguments of a call."""
    origin: bool
    """Whether it only says whose, or where from, the thing before it is: `labels from the dataloader`."""


def _joined(things: list[_Thing]) -> list[_Thing]:
    """The last thing, with those before it that are joined with it."""
    while len(things) > 1 and things[-1].origin:
        things = things[:-1]
    first = len(things) - 1
    while first > 0 and things[first].joins:
        first -= 1
    return things[max(first, 0) :]


def _met(text: str, ended: bool) -> tuple[str, ...]:
    """The devices of the first clause that names two and tells of an error, or names them as a pair where the
    text tells of one.
    """
    for clause, _ in _clauses(text):
        found = [each for each in _DEVICE.finditer(clause) if not each["any"]]
        named = tuple(dict.fromkeys(map(_device, found)))
        if len(named) > 1 and (_SAYS.search(clause) or (ended and _side_by_side(clause, found))):
            return named
    if not ended and _PACE.search(text):
        return ()
    for sentence in _SENTENCE.split(text):
        named = tuple(dict.fromkeys(map(_device, _DEVICE.finditer(sentence))))
        exact = [each for each in named if each != "cuda"]
        placed = " ".join(clause for clause, _ in _clauses(sentence) if _DEVICE.search(clause))
        apart = len(exact) == 2 or (named and {*named} == {"cpu", "cuda"})
        tells = ended or len(exact) == 2 or _SAYS.search(sentence) or len(_STANDS.findall(sentence)) > 1
        if apart and tells and not _WORKS.search(placed) and not _PACE.search(sentence):
            return tuple(exact) if len(exact) == 2 else named
    return _named_by_the_error(text)


def _named_by_the_error(text: str) -> tuple[str, ...]:
    """What a clause that tells of an error says to be on the host, where the text names one GPU elsewhere."""
    gpus = {_device(each) for each in _DEVICE.finditer(text)} - {"cpu", "cuda"}
    if len(gpus) != 1:
        return ()
    for clause, _ in _clauses(text):
        found = [_device(each) for each in _DEVICE.finditer(clause)]
        things = [each for each in _things(clause, 0, len(clause)) if each.role != "model"]
        if found == ["cpu"] and things and _ENDED.search(clause) and not _WORKS.search(clause):
            return ("cpu", *gpus)
    return ()


def _left(text: str) -> Iterator[tuple[str, str]]:
    """What was never moved, as stated."""
    for each in _NOT_MOVED.finditer(text):
        word = next(group for group in each.groups() if group).strip(".")
        thing = THING.fullmatch(word) or (THING.match(word) if " " in word else None)
        yield (thing.lastgroup or "tensor") if thing else "tensor", word


def _side_by_side(clause: str, found: list[re.Match[str]]) -> bool:
    """Whether two devices are named as a pair, as messages do: `cuda:0 and cpu`."""
    return any(
        _AND.fullmatch(clause, one.end(), other.start()) and _device(one) != _device(other)
        for one, other in pairwise(found)
    )


def _things(clause: str, start: int, end: int) -> list[_Thing]:
    found: list[_Thing] = []
    before = start
    for each in THING.finditer(clause, start, max(start, end)):
        joins = bool(found) and _AND.fullmatch(clause, before, each.start()) is not None
        in_code = clause.count("(", 0, each.start()) > clause.count(")", 0, each.start())
        in_code = in_code or clause[each.end() :].lstrip("[]0123456789 ").startswith(")")
        origin = bool(found) and _FROM.fullmatch(clause, before, each.start()) is not None
        found.append(_Thing(each.lastgroup or "", each[0], joins, in_code, origin))
        before = each.end()
    return found


def _device(found: re.Match[str]) -> str:
    if found["gpu"]:
        return f"cuda:{found['gpu'][4:].lstrip(':')}"
    if found["host"]:
        return "cpu"
    if found["any"]:
        return "cuda"
    number = found["number"] or found["card"]
    return f"cuda:{number if number else _NUMERALS.get(found['nth'], found['nth'])}"


def _same(one: str, other: str) -> bool:
    """Whether two stated devices may be the same: `cuda` may be any GPU."""
    return one == other or ("cuda" in (one, other) and one.startswith("cuda") and other.startswith("cuda"))


def _outcomes(text: str) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Sizes of models in clauses that tell of a failure, and of success.

    A clause that tells neither goes with the next one of its sentence; where one size alone fails, the others
    work.
    """
    fails: list[float] = []
    works: list[float] = []
    waiting: list[float] = []
    untold: list[float] = []
    for clause, fresh in _clauses(text):
        untold += waiting if fresh else []
        waiting = [] if fresh else waiting
        waiting += [float(each["size"]) for each in _SIZE.finditer(clause)]
        if _FAILS.search(clause):
            fails += waiting
            waiting = []
        elif _WORKS.search(clause):
            works += waiting
            waiting = []
    if fails and _ALONE.search(text):
        works += untold
    return tuple(dict.fromkeys(fails)), tuple(each for each in dict.fromkeys(works) if each not in fails)
