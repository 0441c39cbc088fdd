"""Lines over time as SVG, without a style attribute: the page's policy forbids these. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from markupsafe import Markup, escape

from ottla.console.display import short

Point = tuple[float, float]
WIDTH, HEIGHT, LEFT, BOTTOM, TOP = 640, 160, 56, 22, 10
SMALL_WIDTH, SMALL_HEIGHT = 120, 24


def chart(points: Sequence[Point], title: str, unit: str, width: int = WIDTH) -> Markup:
    """A chart with axes; a sentence if there are fewer than two points."""
    if len(points) < 2:
        return Markup('<p class="quiet">{} is drawn as soon as it was measured twice.</p>').format(title)
    first, last = points[0][0], points[-1][0]
    top = _round_up(max(value for _, value in points))
    inner_width, inner_height = width - LEFT - 8, HEIGHT - BOTTOM - TOP
    coordinates = _coordinates(points, top, inner_width, inner_height)
    line = " ".join(f"{LEFT + x:.1f},{TOP + y:.1f}" for x, y in coordinates)
    base = HEIGHT - BOTTOM
    area = f"{LEFT},{base} {line} {LEFT + inner_width},{base}"
    rules = [
        Markup(
            '<line class="rule" x1="{}" y1="{:.1f}" x2="{}" y2="{:.1f}"/><text class="axis" x="{}" y="{:.1f}"'
            ' text-anchor="end">{}</text>'
        ).format(LEFT, y, LEFT + inner_width, y, LEFT - 6, y + 4, short(top * part))
        for part in (0.0, 0.5, 1.0)
        for y in (TOP + inner_height * (1 - part),)
    ]
    now = points[-1][1]
    least, most = (short(edge(value for _, value in points)) for edge in (min, max))
    label = f"{title}: {short(now)} {unit} now, between {least} and {most}"
    return Markup(
        '<figure class="chart"><figcaption>{title} <b>{now}</b> {unit}</figcaption>'
        '<svg viewBox="0 0 {w} {h}" role="img" aria-label="{label}">{rules}'
        '<polygon class="area" points="{area}"/><polyline class="line" points="{line}"/>'
        '<text class="axis" x="{left}" y="{foot}">{begin}</text>'
        '<text class="axis" x="{right}" y="{foot}" text-anchor="end">{end}</text></svg></figure>'
    ).format(
        title=title,
        now=short(now),
        unit=unit,
        w=width,
        h=HEIGHT,
        label=label,
        rules=Markup("").join(rules),
        area=area,
        line=line,
        left=LEFT,
        right=width - 8,
        foot=HEIGHT - 6,
        begin=_clock(first),
        end=_clock(last),
    )


def sparkline(points: Sequence[Point], label: str) -> Markup:
    """A small line without axes; nothing if there are fewer than two points."""
    if len(points) < 2:
        return Markup("")
    top = max(value for _, value in points) or 1.0
    coordinates = _coordinates(points[-60:], top, SMALL_WIDTH, SMALL_HEIGHT - 4)
    line = " ".join(f"{x:.1f},{y + 2:.1f}" for x, y in coordinates)
    return Markup(
        '<svg class="spark" viewBox="0 0 {} {}" role="img" aria-label="{}">'
        '<polyline class="line" points="{}"/></svg>'
    ).format(SMALL_WIDTH, SMALL_HEIGHT, label, line)


def bar(share: float, label: str) -> Markup:
    """A horizontal bar from 0 to 1."""
    width = max(0.0, min(1.0, share)) * 100
    return Markup(
        '<svg class="bar" viewBox="0 0 100 8" preserveAspectRatio="none" role="img" aria-label="{}">'
        '<rect class="rail" width="100" height="8" rx="2"/>'
        '<rect class="fill" width="{:.1f}" height="8" rx="2"/></svg>'
    ).format(escape(label), width)


def _coordinates(points: Sequence[Point], top: float, width: float, height: float) -> list[Point]:
    first, last = points[0][0], points[-1][0]
    span = (last - first) or 1.0
    return [((at - first) / span * width, height * (1 - value / (top or 1.0))) for at, value in points]


def _round_up(value: float) -> float:
    if value <= 1:
        return 1.0
    step = 10.0 ** (len(str(int(value))) - 1)
    return next(step * factor for factor in (1, 2, 2.5, 5, 10) if step * factor >= value)


def _clock(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%H:%M:%S")
