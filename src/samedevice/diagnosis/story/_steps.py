"""The order in which a program does what a text tells of: it builds, copies, loads, moves."""

# ruff: noqa: E501, RUF001 # patterns of whole phrases, in Chinese, too

from __future__ import annotations

import re

from samedevice.diagnosis.paste import Pattern

_MODEL = (
    r"(?:\b\w{0,20}(?:model|net|network|module|agent|policy|backbone|encoder|generator|student)\b|模型|网络)"
)
_AWAY = r"(?:GPU|cuda|\bdevice|\bcard\b|显卡|卡上|设备)"
_OPTIMIZER = r"(?:optimi[sz]er|\boptim\b|\bAda\w{2,8}|\bSGD\b|\bRMSprop\b|优化器)"
_STEPS = {
    "move": rf"(?<=after )\.(?:cuda\(|to\((?!['\"]cpu|torch\.|dtype))|\b\w{{0,20}}(?:model|net|module|agent|policy|backbone|encoder|student) ?= ?[^\n;]{{1,80}}?\)\.(?:cuda\(|to\((?!['\"]cpu|torch\.|dtype))|(?<![\w.])(?!\w{{0,20}}(?:ema|teacher|target|shadow|copy)\w*\.)(?:\w{{0,20}}(?:model|net|module|agent|policy|backbone|encoder|generator|student))\w{{0,6}}\.(?:cuda\(|to\((?!['\"]cpu|torch\.|dtype))"
    rf"|\b(?:mov|send|sent|put|push|transfer|ship)\w*\b[^.,;\n]{{0,24}}{_MODEL}[^.,;\n]{{0,24}}{_AWAY}|\b(?:mov|send|sent|put|push|transfer|ship)\w*\b (?:it|them|everything|all)\b[^.,;\n]{{0,16}}{_AWAY}|{_MODEL} (?:is|was|gets|goes|went) (?:moved|sent|put|on|to)\b[^.,;\n]{{0,16}}{_AWAY}"
    rf"|{_MODEL}[^。，；,\n]{{0,10}}(?:搬|移|放|送|挪)[^。，；,\n]{{0,10}}{_AWAY}|(?:搬|移动|移)[^。，；,\n]{{0,4}}模型",
    "optimizer": rf"\b(?:buil[dt]|creat|construct|mak|made|instantiat|init)\w*\b[^.,;\n]{{0,20}}{_OPTIMIZER}|optim\w{{0,6}} ?= ?[\w.]{{0,20}}(?:optim\.|Adam|SGD|RMS)|{_OPTIMIZER}[^.,;\n]{{0,12}}(?:is|was|gets) (?:built|created|made|constructed)"
    rf"|(?:创建|建|构造|定义|初始化|实例化)[^，。；\n]{{0,6}}{_OPTIMIZER}|优化器[^，。；\n]{{0,6}}(?:创建|建好|构造|定义|初始化)",
    "load": rf"\b(?:load|restor)\w*\b[^.;\n]{{0,30}}(?:both state|state ?dicts\b|{_OPTIMIZER})|\bopt\w{{0,12}}\.load_state_dict|(?:加载|恢复|读取|载入|读回)[^，。；\n]{{0,12}}(?:优化器|optimi[sz]er)|(?:优化器|optimi[sz]er)[^，。；\n]{{0,8}}(?:加载|恢复|载入|读回)",
    "copy": rf"\b(?:ema|shadow|avg|averaged)\w{{0,20}} ?= ?[\w.]{{1,60}}\(\w{{0,20}}(?:model|net)\w{{0,10}}(?:\.parameters\(\))?|deepcopy\(|AveragedModel\(|ModelEma\w{{0,4}}\(|\b(?:EMA|teacher|target|shadow|momentum|averaged)\b[^.;\n]{{0,40}}\b(?:cop(?:y|ied)|clon\w+|deep-?cop\w+|snapshot)|\b(?:(?:deep-?)?cop(?:y|ied|ies)|clon\w+|duplicat\w+)\b[^.;\n]{{0,24}}{_MODEL}"
    r"|(?:复制|拷贝|克隆|deepcopy)[^，。；\n]{0,12}(?:模型|网络|model|net)|(?:模型|网络)[^，。；\n搬移放送到前后]{0,10}(?:复制|拷贝|克隆|deepcopy)|(?:EMA|影子|教师|目标)[^，。；\n]{0,10}(?:复制|拷贝|克隆)",
    "add": r"(?<![\w.])\w{0,20}(?:model|net)\w{0,6}(?:\.\w{1,40}){1,3} ?= ?[\w.]{0,20}\b[A-Z]\w{1,40}\(|\.add_module\(|\b(?:replac|swap|attach|insert)\w*\b[^.,;\n]{0,30}\b(?:head|layer|module|classifier|block|projection)s?\b"
    r"|(?:替换|换掉|换成|加上|添加|加了|新增|接上)[^，。；\n]{0,12}(?:层|头|模块|head|fc|分类器)",
}
_KINDS = {name: Pattern(pattern, re.IGNORECASE | re.ASCII) for name, pattern in _STEPS.items()}
_SENTENCE = Pattern(r"[。！？!?\n;；]|\.(?=\s|$)")
_AFTER = Pattern(r"\b(?:after|once|behind|as soon as)\s(?:\w+\s){0,3}$", re.IGNORECASE)
_BEFORE = Pattern(r"\b(?:before|prior to|until)\s(?:\w+\s){0,3}$", re.IGNORECASE)
_BEFORE_THIS = Pattern(r"[^，。；\n]{0,10}(?:之前|以前|前面?)(?!面板)")
_EARLIER = Pattern(r"\b(?:before that|beforehand|earlier)\b|此前|事先|在(?:这|那|此)之前", re.IGNORECASE)


def precedes(text: str, one: str, other: str) -> bool | None:
    """Whether a text tells that one step is done before the other; None where it does not tell of both.

    Steps are told in their order, but for words such as `after`, `before` and 之前 between them.
    """
    first, second = _KINDS[one].search(text), _KINDS[other].search(text)
    if first is None or second is None or first.start() == second.start():
        return None
    told_first = first.start() < second.start()
    if not told_first:
        first, second = second, first
    if first.end() >= second.end():
        return None
    shared = first.end() > second.start()  # two verbs of one noun
    between = text[first.end() : second.end() if shared else second.start()]
    if _SENTENCE.search(between):
        start = max((each.end() for each in _SENTENCE.finditer(text, 0, second.start())), default=0)
        turned = _EARLIER.search(text, start, second.start()) is not None
    else:
        turned = (
            _AFTER.search(between) is not None
            or _BEFORE.search(text[max(0, first.start() - 40) : first.start()]) is not None
            or _BEFORE_THIS.match(between) is not None
        )
    return told_first != turned
