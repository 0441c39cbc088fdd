"""The documentation as a whole: generated pages are current, the index has every page, the site builds."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path, PurePosixPath

import pytest

from tools import site

ROOT = Path(__file__).parents[2]
GENERATED = {
    "api_reference": "docs/reference/api.md",
    "settings_reference": "docs/reference/settings.md",
}


@pytest.mark.parametrize("tool", GENERATED)
def test_reference_pages_are_made_from_the_code(tool: str) -> None:
    printed = subprocess.run(
        [sys.executable, f"tools/{tool}.py"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert printed.stdout == (ROOT / GENERATED[tool]).read_text(), "run `make reference`"


def test_the_index_leads_to_every_page() -> None:
    pages = site.read_pages(ROOT)
    listed = {path for _, entries in site.navigation_entries(pages[site.INDEX]) for _, path in entries}
    assert sorted(set(pages) - listed - {site.INDEX, PurePosixPath("README.md")}) == []


def test_the_site_is_built_without_broken_links(tmp_path: Path) -> None:
    assert site.build(ROOT, tmp_path / "site") == []
    page = (tmp_path / "site" / "docs" / "groups.html").read_text()
    assert '<li class="here"><a href="groups.html">' in page
    assert '<h1 id="groups">Groups</h1>' in page
    assert ".md" not in "".join(link.split('"')[0] for link in page.split('href="')[1:])


def test_pictures_are_part_of_the_site(tmp_path: Path) -> None:
    assert site.build(ROOT, tmp_path / "site") == []
    assert (tmp_path / "site" / "docs" / "pictures" / "console.png").read_bytes().startswith(b"\x89PNG")
    index = PurePosixPath("docs/index.md")
    page = site.Page(index, site.MARKDOWN.parse("![a](gone.png) ![b](https://elsewhere/b.png)"))
    assert list(site.missing_pictures({index: page}, ROOT)) == [
        "docs/index.md: gone.png: no such picture here",
        "docs/index.md: https://elsewhere/b.png: no such picture here",
    ]


def test_broken_links_are_named_and_nothing_is_written(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    for name in site.TOP_PAGES:
        (tmp_path / name).write_text("# Top\n")
    (tmp_path / "docs" / "index.md").write_text(
        "# Index\n\n[a](gone.md) [b](../README.md#gone) [c](#index)\n"
    )
    assert site.build(tmp_path, tmp_path / "site") == [
        "docs/index.md: gone.md: no such file",
        "docs/index.md: ../README.md#gone: no such heading",
    ]
    assert not (tmp_path / "site").exists()


def test_anchors_follow_the_rule_of_github() -> None:
    assert site.anchor_of('Spark: reading, format("ottla")') == "spark-reading-formatottla"
