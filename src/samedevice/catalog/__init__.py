"""The catalog: every rule with its page, as `samedevice explain CODE` prints it and `docs/rules/` keeps
it.
"""

from __future__ import annotations

from samedevice.catalog._pages import find_rule, index_text, page_text, pages

__all__ = ["find_rule", "index_text", "page_text", "pages"]
