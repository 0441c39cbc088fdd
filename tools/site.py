"""Build the documentation as a static site: `python tools/site.py [DIRECTORY]`, by default build/site.

Pages are the Markdown files of docs/ and of the top directory. The navigation is docs/index.md: its headings
and the links below them. A code block may have a caption behind its language (```python ottla); two blocks
with different captions, one after the other, stand side by side. A link to a page or an anchor that does not
exist is an error; the program names them all and returns 1. Nothing is loaded from elsewhere, neither by this
program nor by the pages.
"""

from __future__ import annotations

import html
import os
import re
import shutil
import sys
from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.token import Token
from markdown_it.utils import OptionsDict

ROOT = Path(__file__).parents[1]
INDEX = PurePosixPath("docs/index.md")
TOP_PAGES = ("README.md", "CHANGELOG.md", "CONTRIBUTING.md")
MARKDOWN = MarkdownIt("commonmark", {"html": False}).enable("table")
EXTERNAL = re.compile(r"[a-z]+:")

STYLE = """
:root { color-scheme: light dark; --line: #8884; --soft: #8881; --link: light-dark(#0b57a4, #8ab8f0); }
body { font: 16px/1.55 system-ui, sans-serif; margin: 0; display: flex; }
a { color: var(--link); text-decoration: none; } a:hover { text-decoration: underline; }
nav { flex: 0 0 17rem; height: 100vh; position: sticky; top: 0; overflow-y: auto; box-sizing: border-box;
  padding: 1.2rem; border-right: 1px solid var(--line); font-size: 14px; }
nav h2 { font-size: 14px; margin: 1.1rem 0 .2rem; } nav ul { list-style: none; margin: 0; padding: 0; }
nav .here { font-weight: 600; }
main { flex: 1; min-width: 0; max-width: 66rem; padding: 1rem 2.5rem 4rem; }
img { max-width: 100%; border: 1px solid var(--line); border-radius: 8px; } img[src$=".svg"] { border: 0; }
pre { background: var(--soft); border: 1px solid var(--line); padding: .8rem; overflow-x: auto; }
code { font: 14px/1.45 ui-monospace, monospace; } pre code { font-size: 13px; }
figure { margin: 1rem 0; min-width: 0; } figure pre { margin: .2rem 0; }
figcaption { font-size: 14px; font-weight: 600; }
.pair { display: grid; grid-template-columns: 1fr 1fr; gap: 0 1rem; } .pair pre code { font-size: 12px; }
@media (max-width: 70rem) { .pair { display: block; } }
table { border-collapse: collapse; display: block; overflow-x: auto; }
th, td { border: 1px solid var(--line); padding: .3rem .6rem; text-align: left; vertical-align: top; }
thead:not(:has(th:not(:empty))) { display: none; }
@media (max-width: 50rem) { body { display: block; } nav { height: auto; position: static; border: 0; } }
"""
START = '<!doctype html><meta http-equiv="refresh" content="0; url=docs/index.html">\n'
PAGE = """<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>{title} · ottla</title><link rel="stylesheet" href="{top}style.css"></head>
<body>
<nav><a href="{top}docs/index.html"><strong>ottla</strong></a>
{navigation}</nav>
<main>
{body}</main>
</body>
</html>
"""


@dataclass(frozen=True)
class Page:
    """A Markdown file, its path relative to the top directory, and its parsed tokens."""

    path: PurePosixPath
    tokens: Sequence[Token]

    @property
    def target(self) -> PurePosixPath:
        """Its place in the site."""
        return self.path.with_suffix(".html")

    @property
    def headings(self) -> Iterator[tuple[str, str]]:
        """(tag, text) of every heading."""
        for token, inline in zip(self.tokens, self.tokens[1:], strict=False):
            if token.type == "heading_open":
                yield token.tag, plain_text(inline)

    @property
    def title(self) -> str:
        """The text of the first heading."""
        return next((text for _, text in self.headings), self.path.stem)

    @property
    def links(self) -> Iterator[Token]:
        """Every link, as the token that opens it."""
        for token in self.tokens:
            for child in token.children or ():
                if child.type == "link_open":
                    yield child

    @property
    def images(self) -> Iterator[str]:
        """The address of every picture."""
        for token in self.tokens:
            for child in token.children or ():
                if child.type == "image":
                    yield str(child.attrs["src"])


def plain_text(inline: Token) -> str:
    """The text of a heading or link without its markup."""
    return "".join(child.content for child in inline.children or ())


def anchor_of(heading: str) -> str:
    """A heading's anchor, by the rule of GitHub: small letters, blanks to hyphens, no punctuation."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def anchors(page: Page) -> list[str]:
    """The anchors of all headings in order; a repeated one gets a number."""
    seen: dict[str, int] = {}
    names = []
    for _, text in page.headings:
        name = anchor_of(text)
        count = seen.get(name, 0)
        seen[name] = count + 1
        names.append(f"{name}-{count}" if count else name)
    return names


def read_pages(root: Path) -> dict[PurePosixPath, Page]:
    """All pages by their path."""
    files = [root / name for name in TOP_PAGES] + sorted((root / "docs").rglob("*.md"))
    pages = [Page(PurePosixPath(file.relative_to(root)), MARKDOWN.parse(file.read_text())) for file in files]
    return {page.path: page for page in pages}


def resolve(page: Page, href: str) -> tuple[PurePosixPath, str]:
    """The file that a link leads to, relative to the top directory, and the anchor in it."""
    name, _, anchor = href.partition("#")
    path = os.path.normpath(page.path.parent / name) if name else str(page.path)
    return PurePosixPath(path), anchor


def broken_links(pages: Mapping[PurePosixPath, Page], root: Path) -> Iterator[str]:
    """A line for each link that leads nowhere."""
    known = {path: set(anchors(page)) for path, page in pages.items()}
    for page in pages.values():
        for link in page.links:
            href = str(link.attrs["href"])
            if EXTERNAL.match(href):
                continue
            path, anchor = resolve(page, href)
            if not (root / path).exists():
                yield f"{page.path}: {href}: no such file"
            elif anchor and path in known and anchor not in known[path]:
                yield f"{page.path}: {href}: no such heading"


def missing_pictures(pages: Mapping[PurePosixPath, Page], root: Path) -> Iterator[str]:
    """A line for each picture that is not there, or that would be loaded from elsewhere."""
    for page in pages.values():
        for source in page.images:
            if EXTERNAL.match(source) or not (root / resolve(page, source)[0]).is_file():
                yield f"{page.path}: {source}: no such picture here"


def rewrite_links(page: Page, pages: Mapping[PurePosixPath, Page]) -> Iterator[PurePosixPath]:
    """Let links to pages lead to their HTML. Returns the other files that the page links to."""
    for link in page.links:
        href = str(link.attrs["href"])
        if EXTERNAL.match(href):
            continue
        path, anchor = resolve(page, href)
        if path in pages:
            link.attrs["href"] = relative(page, pages[path].target) + (f"#{anchor}" if anchor else "")
        else:
            yield path


def relative(page: Page, target: PurePosixPath) -> str:
    """The way from a page to a file of the site."""
    return os.path.relpath(target, page.target.parent)


def navigation_entries(index: Page) -> list[tuple[str, list[tuple[str, PurePosixPath]]]]:
    """The index's second-level headings, each with the pages that are linked below it, once each."""
    sections: list[tuple[str, list[tuple[str, PurePosixPath]]]] = []
    listed: set[PurePosixPath] = set()
    for number, token in enumerate(index.tokens):
        if token.type == "heading_open" and token.tag == "h2":
            sections.append((plain_text(index.tokens[number + 1]), []))
        for text, href in _link_texts(token):
            path, _ = resolve(index, href)
            if sections and path.suffix == ".md" and path not in listed:
                listed.add(path)
                sections[-1][1].append((text, path))
    return [section for section in sections if section[1]]


def _link_texts(token: Token) -> Iterator[tuple[str, str]]:
    children = token.children or ()
    for number, child in enumerate(children):
        if child.type == "link_open" and not EXTERNAL.match(str(child.attrs["href"])):
            yield children[number + 1].content, str(child.attrs["href"])


def navigation(page: Page, pages: Mapping[PurePosixPath, Page]) -> str:
    """The navigation as a page shows it."""
    text = ""
    for title, entries in navigation_entries(pages[INDEX]):
        items = "".join(_item(page, label, path, pages) for label, path in entries if path in pages)
        text += f"<h2>{html.escape(title)}</h2>\n<ul>\n{items}</ul>\n"
    return text


def _item(page: Page, label: str, path: PurePosixPath, pages: Mapping[PurePosixPath, Page]) -> str:
    mark = ' class="here"' if path == page.path else ""
    return f'<li{mark}><a href="{relative(page, pages[path].target)}">{html.escape(label)}</a></li>\n'


def caption(token: Token) -> str:
    """What stands behind the language of a code block."""
    return token.info.partition(" ")[2].strip() if token.type == "fence" else ""


def captioned_block(
    _renderer: RendererHTML,
    tokens: Sequence[Token],
    number: int,
    _options: OptionsDict,
    _env: MutableMapping[str, object],
) -> str:
    """A code block with its caption, beside its neighbour if that has another one."""
    token = tokens[number]
    body = f"<pre><code>{html.escape(token.content)}</code></pre>"
    if not (own := caption(token)):
        return f"{body}\n"
    before, after = (caption(tokens[at]) if 0 <= at < len(tokens) else "" for at in (number - 1, number + 1))
    figure = f"<figure><figcaption>{html.escape(own)}</figcaption>{body}</figure>\n"
    is_second = before not in ("", own)
    is_first = not is_second and after not in ("", own)
    begin, end = '<div class="pair">' if is_first else "", "</div>" if is_second else ""
    return f"{begin}{figure}{end}"


MARKDOWN.add_render_rule("fence", captioned_block)


def render(page: Page, menu: str) -> str:
    """The page as HTML."""
    names = iter(anchors(page))
    for token in page.tokens:
        if token.type == "heading_open":
            token.attrSet("id", next(names))
    body = MARKDOWN.renderer.render(page.tokens, MARKDOWN.options, {})
    top = "../" * (len(page.target.parts) - 1)
    return PAGE.format(title=html.escape(page.title), top=top, navigation=menu, body=body)


def build(root: Path, site: Path) -> list[str]:
    """Write the site. Returns the broken links; with any, nothing is written."""
    pages = read_pages(root)
    if broken := [*broken_links(pages, root), *missing_pictures(pages, root)]:
        return broken
    menus = {path: navigation(page, pages) for path, page in pages.items()}
    shutil.rmtree(site, ignore_errors=True)
    for path, page in pages.items():
        for file in rewrite_links(page, pages):
            _copy(root / file, site / file)
        for source in page.images:
            picture = resolve(page, source)[0]
            _copy(root / picture, site / picture)
        _write(site / page.target, render(page, menus[path]))
    _write(site / "style.css", STYLE)
    _write(site / "index.html", START)
    return []


def _write(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


def _copy(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    if source.is_dir():
        names = "".join(
            f"{entry.name}\n" for entry in sorted(source.iterdir()) if entry.name != "__pycache__"
        )
        _write(target / "index.html", f"<pre>{html.escape(names)}</pre>\n")
    else:
        shutil.copyfile(source, target)


def main(arguments: Sequence[str]) -> int:
    """Build the site and say where it is."""
    site = Path(arguments[0]) if arguments else ROOT / "build" / "site"
    broken = build(ROOT, site)
    for line in broken:
        sys.stderr.write(f"{line}\n")
    if not broken:
        sys.stdout.write(f"{site / 'index.html'}\n")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
