"""The terminal report as text."""

# ruff: noqa: RUF001 # Chinese text

from __future__ import annotations

from io import StringIO

import pytest
from rich.console import Console
from rich.table import Table

from samedevice.events import DeviceMemory, Operand, Place
from samedevice.findings import Finding, Fix
from samedevice.messages import Bytes
from samedevice.report import finding_text, open_console, print_finding, print_run, readable_language
from samedevice.report._words import harmless, short_path, short_type, typed_shape

SITE = "/env/lib/python3.11/site-packages"
USER = Place("/elsewhere/chat.py", 38, "<module>", "model.generate(**batch)")


DIFF = """\
--- a/chat.py
+++ b/chat.py
@@ -8,3 +8,4 @@
     before()
-    a = 1
+    a = 2
+    b = 3
     after()
"""


def finding(**changes):
    values = {
        "code": "SD101",
        "cause": "input-not-on-embedding-device",
        "confidence": "likely",
        "title": "embedding got operands on cuda:7 and cuda:0",
        "message": "Expected all tensors to be on the same device",
        "op": "aten.embedding.default",
        "at": Place(
            f"{SITE}/transformers/models/qwen2/modeling_qwen2.py",
            512,
            "forward",
            "x = self.embed_tokens(ids)",
        ),
        "user_at": USER,
        "module": "model.embed_tokens",
        "operands": (
            Operand(
                "weight",
                "cuda:7",
                (151936, 1024),
                "bfloat16",
                parameter="model.embed_tokens.weight",
                made=Place(f"{SITE}/transformers/modeling_utils.py", 5, "f"),
                role="parameter",
                tied=("lm_head.weight",),
            ),
            Operand(
                "indices",
                "cuda:0",
                (),
                "int64",
                moved=Place("/elsewhere/chat.py", 31, "<module>", "ids.cuda()"),
            ),
        ),
        "candidates": ("lm-head-or-tied-weight-split",),
        "count": 3,
        "fixes": (Fix("move it", "check", DIFF),),
        "notes": ("a note",),
    }
    return Finding(**(values | changes))


FULL = """\
SD101 cross-device-operands: embedding got operands on cuda:7 and cuda:0
  transformers/models/qwen2/modeling_qwen2.py:512 in forward      x = self.embed_tokens(ids)
  called   /elsewhere/chat.py:38 in <module>      model.generate(**batch)
  module   model.embed_tokens, 3 times
  weight   bf16[151936, 1024]  cuda:7  self.weight, tied to lm_head.weight, made at \
transformers/modeling_utils.py:5, never moved
  indices  i64[]               cuda:0  moved by .cuda() at /elsewhere/chat.py:31
  cause    input-not-on-embedding-device (likely)
  maybe    lm-head-or-tied-weight-split
  note     a note
  fix      move it (check the result)
           chat.py:9
            9 - a = 1
            9 + a = 2
           10 + b = 3
  more     samedevice explain SD111
"""
CHINESE = """\
SD101 cross-device-operands: embedding got operands on cuda:7 and cuda:0
  transformers/models/qwen2/modeling_qwen2.py:512，forward 中      x = self.embed_tokens(ids)
  调用处   /elsewhere/chat.py:38，<module> 中      model.generate(**batch)
  模块     model.embed_tokens，3 次
  weight   bf16[151936, 1024]  cuda:7  self.weight，与 lm_head.weight 共享，创建于 \
transformers/modeling_utils.py:5，从未移动
  indices  i64[]               cuda:0  在 /elsewhere/chat.py:31 由 .cuda() 移动
  根源     input-not-on-embedding-device (很可能)
  可能     lm-head-or-tied-weight-split
  备注     a note
  修复     move it (需检查结果)
           chat.py:9
            9 - a = 1
            9 + a = 2
           10 + b = 3
  详情     samedevice explain SD111
"""


def test_full_finding():
    assert finding_text(finding()) == FULL


def test_full_finding_in_chinese():
    assert finding_text(finding(), "zh") == CHINESE


def printed(finding, detail="normal"):
    """As on a terminal of 100 columns."""
    stream = StringIO()
    print_finding(Console(file=stream, width=100, highlight=False, color_system=None), finding, detail=detail)
    return stream.getvalue()


def test_only_the_first_fix_shows_lines_and_long_ones_are_told_by_their_place():
    long = DIFF.replace("a = 2", f"a = [{', '.join(['2'] * 200)}]").replace("chat.py", "modeling_qwen2.py")
    text = printed(finding(fixes=(Fix("move it", "check", long), Fix("do this", "check", DIFF))))
    assert "move it (check the result, modeling_qwen2.py:9)\n  or       do this\n  more" in text


def test_another_fix_says_how_safe_it_is_where_that_differs():
    fixes = Fix("move it", "safe", DIFF), Fix("do this", "check", DIFF), Fix("do that", "safe", DIFF)
    text = printed(finding(fixes=fixes))
    assert "\n  or       do this (check the result)\n  or       do that\n" in text


def test_verbose_prints_every_diff_as_it_may_be_applied():
    text = printed(finding(fixes=(Fix("move it", "check", DIFF),) * 2), "verbose")
    shown = [line[11:] for line in text.splitlines()]
    assert [line for line in shown if line in DIFF.splitlines()] == DIFF.splitlines() * 2


def test_smallest_finding():
    bare = Finding(
        "SD106",
        "undetermined",
        "guess",
        "a device was picked from an unordered set",
        None,
        None,
        None,
        None,
        None,
    )
    assert finding_text(bare) == (
        "SD106 device-from-unordered-set: a device was picked from an unordered set\n"
        "  why      the order of a set of strings changes from run to run, and the device with it\n"
        "  more     samedevice explain SD106\n"
    )


def test_user_line_that_is_the_failing_line_is_shown_once():
    assert "called" not in finding_text(finding(at=USER))


def test_index_has_its_own_reason():
    text = finding_text(
        finding(
            message="indices should be either on cpu or on the same device as the indexed tensor (cuda:0)"
        )
    )
    assert "  why      the index may be on the cpu or with the indexed tensor, not on another GPU\n" in text


@pytest.mark.parametrize(
    ("given", "said"),
    [("unfilled", "the result is memory that nobody filled"), ("meta", "the result is on meta")],
)
def test_what_raises_nothing_has_its_own_reason(given, said):
    text = " ".join(finding_text(finding(code="SD102", silent_result=given)).split())
    assert f"why real hardware raises nothing here: no kernel runs, and {said}" in text


def test_text_of_the_script_is_never_markup_or_control():
    evil = "[bold]x[/bold] :smile: [link=http://x]y[/] \x1b[31mred\x07\ttab"
    text = finding_text(finding(at=Place("[red]a.py", 1, "[f]", evil), notes=(evil,)))
    shown = "[bold]x[/bold] :smile: [link=http://x]y[/] \\x1b[31mred\\x07 tab"
    assert f"  [red]a.py:1 in [f]      {shown}\n" in text
    assert f"  note     {shown}\n" in text


@pytest.mark.parametrize("width", [10, 20, 40, 60, 80, 100, 140])
@pytest.mark.parametrize("language", ["en", "zh"])
def test_every_width(width, language):
    stream = StringIO()
    console = Console(file=stream, width=width, highlight=False, color_system=None)
    memory = {"cuda:0": DeviceMemory(0, 0, 1 << 30, 2 << 30, 24 << 30)}
    print_run(
        console,
        findings=[finding()],
        machine={"spec": "2x24GB"},
        memory=memory,
        status="completed",
        language=language,
    )
    from rich.cells import cell_len

    lines = stream.getvalue().splitlines()
    assert max(map(cell_len, lines)) <= max(width, 24)
    assert "".join("".join(lines).split()).startswith("SD101cross-device-operands:embeddinggot")


def test_summary_names_the_machine_of_a_file():
    stream = StringIO()
    print_run(
        Console(file=stream, width=200, color_system=None),
        findings=[],
        machine={"spec": "lab.toml", "name": "lab"},
        memory={},
        status="interrupted",
    )
    assert stream.getvalue() == "samedevice: nothing found on lab (lab.toml); the script was interrupted\n"


def test_small_words(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    assert [short_type(name) for name in ("float32", "bool", "bfloat16", "int64", "float8_e4m3fn")] == [
        "f32",
        "bool",
        "bf16",
        "i64",
        "float8_e4m3fn",
    ]
    assert typed_shape(Operand("x", "cpu", (2, 3), "uint8")) == "u8[2, 3]"
    assert [str(Bytes(count)) for count in (0, 1023, 1024, 5 << 20, 24 << 30, 3 << 40)] == [
        "0 B",
        "1023 B",
        "1.0 KiB",
        "5.0 MiB",
        "24.0 GiB",
        "3.0 TiB",
    ]
    assert short_path(str(tmp_path / "a" / "b.py")) == "a/b.py"
    assert short_path(f"{SITE}/transformers/x.py") == "transformers/x.py"
    assert short_path("/other/x.py") == "/other/x.py"
    assert harmless("a\x00b\udc80é中") == "a\\x00b\\udc80é中"


def test_chinese_only_where_it_can_be_written():
    class Ascii(StringIO):
        encoding = "ascii"

    class Utf8(StringIO):
        encoding = "utf-8"

    assert readable_language(Ascii(), "zh") == "en"
    assert readable_language(Utf8(), "zh") == "zh"


def test_lines_of_a_file_end_without_the_spaces_that_fill_a_column():
    stream = StringIO()
    table = Table.grid(padding=(0, 2))
    table.add_row("weights", "a long line of text")
    table.add_row("cache", "none")
    open_console(stream).print(table)
    assert stream.getvalue() == "weights  a long line of text\ncache    none\n"
