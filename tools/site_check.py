"""Check a built site: every page is reached from the first one, and no page asks another host for anything.

python -m tools.site_check build/site

MkDocs itself checks the links between pages (`strict` in mkdocs.yml). What it does not see: a page that no
link leads to, and fonts, scripts or pictures from another host, which a reader behind a firewall waits for.
"""

from __future__ import annotations

import argparse
import re
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

_LOADED = {"script": "src", "img": "src", "link": "href", "iframe": "src", "source": "src", "video": "src"}
_NOT_LOADED = {"canonical", "alternate", "next", "prev"}
_CSS_URL = re.compile(r"""url\(\s*["']?(https?:)?//|@import\s+["']?(https?:)?//""")


class _Page(HTMLParser):
    """What a page loads, and where it leads."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.loads: list[str] = []
        self.leads: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = {name: value or "" for name, value in attrs}
        if tag == "a" and "href" in found:
            self.leads.append(found["href"])
        elif tag in _LOADED and not (tag == "link" and set(found.get("rel", "").split()) & _NOT_LOADED):
            self.loads.append(found.get(_LOADED[tag], ""))


def complaints(site: Path) -> list[str]:
    """What is wrong with the site."""
    found: list[str] = []
    reached: set[Path] = set()
    waiting = [site / "index.html"]
    while waiting:
        path = waiting.pop()
        if path in reached or not path.is_file():
            continue
        reached.add(path)
        page = _Page(path.read_text("utf-8"))
        foreign = [link for link in page.loads if urlsplit(link).netloc]
        found += [f"{path.relative_to(site)} loads {link}" for link in foreign]
        waiting += [target for link in page.leads if (target := _target(site, path, link)) is not None]
    pages = set(site.rglob("*.html")) - {site / "404.html", site / "zh" / "404.html"}
    found += [f"no link leads to {path.relative_to(site)}" for path in sorted(pages - reached)]
    for path in [*site.rglob("*.css"), *site.rglob("*.svg")]:
        if _CSS_URL.search(path.read_text("utf-8")):
            found.append(f"{path.relative_to(site)} loads from another host")
    return found


def _target(site: Path, page: Path, link: str) -> Path | None:
    parts = urlsplit(link)
    if parts.scheme or parts.netloc or not parts.path:
        return None
    base = site if parts.path.startswith("/") else page.parent
    target = (base / unquote(parts.path).lstrip("/")).resolve()
    return target / "index.html" if target.is_dir() else target


def main(arguments: list[str] | None = None) -> int:
    """Print what is wrong with a site; exit status 1 when something is."""
    parser = argparse.ArgumentParser(prog="python -m tools.site_check", description=main.__doc__)
    parser.add_argument("site", type=Path)
    site = parser.parse_args(arguments).site.resolve()
    if not (site / "index.html").is_file():
        parser.error(f"no site in {site}")
    found = complaints(site)
    for complaint in found:
        print(complaint, file=sys.stderr)
    pages = len(list(site.rglob("*.html")))
    print(f"{pages} pages, {len(found)} complaints")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
