"""Show benchmark runs: `python -m tools.benchmark_charts` reads docs/benchmarks.jsonl, and draws charts.

`python -m benchmarks NAME --save` writes the file. Results whose picture is on docs/benchmarks.md become
docs/pictures/bench-NAME.svg: a bar for ottla and one for each peer that was measured, and below them the
command, the day and the machine's load. The pictures are light and dark by themselves. The tables are written
by `benchmark_tables`.
"""

from __future__ import annotations

import html
import re
import sys
from typing import Any

from tools.benchmark_tables import PAGE, ROOT, load_text, pages, saved_runs, scaled

PICTURES = ROOT / "docs" / "pictures"
WIDTH, ROW, LABEL, TOP, FOOT = 720, 26, 230, 34, 24
STYLE = (
    "text{font:13px system-ui,sans-serif;fill:#18212b}.title{font-weight:600}.ours{fill:#0b6b62}"
    ".peer{fill:#9aa8b5}.foot{font-size:11px;opacity:.7}"
    "@media(prefers-color-scheme:dark){text{fill:#e4e9ee}.ours{fill:#5ec8bc}.peer{fill:#566472}}"
)


def file_name(result: dict[str, Any]) -> str:
    """The name of the chart of a result."""
    return f"bench-{re.sub(r'[^a-z0-9]+', '-', result['name'].lower()).strip('-')}.svg"


def drawn(result: dict[str, Any]) -> str:
    """The chart of a result as SVG."""
    rows = [("ottla", result["ours"], "ours")]
    rows += [
        (f"{peer['name']} {peer['version']}".strip(), peer["value"], "peer")
        for peer in result["peers"]
        if peer["value"] is not None
    ]
    longest = max(value for _, value, _ in rows)
    height = TOP + ROW * len(rows) + FOOT
    wins = "shorter" if result["better"] == "less" else "longer"
    run = result["run"]
    foot = f"{wins} is better · {run['command']} · {run['at'][:10]} · {load_text([run['load']])}"
    spoken = ", ".join(f"{name} {scaled(value)}" for name, value, _ in rows)
    title = f"{result['name']} ({result['unit']})"
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img" '
        f'aria-label="{html.escape(result["name"])}: {html.escape(spoken)}"><style>{STYLE}</style>',
        f'<text class="title" x="0" y="18">{html.escape(title)}</text>',
    ]
    for number, (name, value, kind) in enumerate(rows):
        y = TOP + ROW * number
        width = max(1.0, (WIDTH - LABEL - 80) * value / longest)
        parts.append(
            f'<text x="{LABEL - 8}" y="{y + 15}" text-anchor="end">{html.escape(name)}</text>'
            f'<rect class="{kind}" x="{LABEL}" y="{y}" width="{width:.1f}" height="{ROW - 6}" rx="3"/>'
            f'<text x="{LABEL + width + 6:.1f}" y="{y + 15}">{scaled(value)}</text>'
        )
    parts.append(f'<text class="foot" x="0" y="{height - 6}">{html.escape(foot)}</text>')
    return "".join([*parts, "</svg>\n"])


def shown_results() -> list[dict[str, Any]]:
    """The results whose picture is on the page."""
    page = PAGE.read_text()
    return [result for result in saved_runs() if f"pictures/{file_name(result)})" in page]


def main() -> int:
    """Write the tables and the charts."""
    for page, text in pages():
        page.write_text(text)
    for result in shown_results():
        (PICTURES / file_name(result)).write_text(drawn(result))
    return 0


if __name__ == "__main__":
    sys.exit(main())
