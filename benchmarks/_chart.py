"""A chart with two logarithmic axes, as plain SVG: seconds by rows, a line for each program."""

import math
from collections.abc import Mapping, Sequence
from html import escape

WIDTH, HEIGHT = 720, 360
LEFT, RIGHT, TOP, BOTTOM = 70, 50, 50, 50
COLOURS = ("#b45309", "#1d4ed8", "#15803d")


def chart(rows: Sequence[int], lines: Mapping[str, Sequence[float]]) -> str:
    """Draw them; the axes end at powers of ten."""
    seconds = [value for line in lines.values() for value in line]
    x_axis = (math.floor(math.log10(min(rows))), max(math.ceil(math.log10(max(rows))), 1))
    y_axis = (math.floor(math.log10(min(seconds))), math.ceil(math.log10(max(seconds))))

    def across(value: float) -> float:
        return _place(value, x_axis, LEFT, WIDTH - RIGHT)

    def up(value: float) -> float:
        return _place(value, y_axis, HEIGHT - BOTTOM, TOP)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" '
        'font-size="13">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>',
        *(_row(power, up(10**power)) for power in range(y_axis[0], y_axis[1] + 1)),
        *(_column(power, across(10**power)) for power in range(x_axis[0], x_axis[1] + 1)),
        f'<text x="{WIDTH / 2}" y="{HEIGHT - 8}" text-anchor="middle" fill="#374151">rows in each table</text>',
    ]
    for number, (name, values) in enumerate(lines.items()):
        points = [(across(row), up(value)) for row, value in zip(rows, values, strict=True)]
        parts += _line(name, points, COLOURS[number % len(COLOURS)], 20 + 16 * number)
    return "\n".join([*parts, "</svg>", ""])


def _place(value: float, axis: tuple[int, int], start: float, end: float) -> float:
    share = (math.log10(value) - axis[0]) / max(axis[1] - axis[0], 1)
    return round(start + share * (end - start), 1)


def _row(power: int, y: float) -> str:
    label = f"{10**power:g} s"
    return (
        f'<line x1="{LEFT}" y1="{y}" x2="{WIDTH - RIGHT}" y2="{y}" stroke="#e5e7eb"/>'
        f'<text x="{LEFT - 8}" y="{y + 4}" text-anchor="end" fill="#374151">{label}</text>'
    )


def _column(power: int, x: float) -> str:
    return (
        f'<line x1="{x}" y1="{TOP}" x2="{x}" y2="{HEIGHT - BOTTOM}" stroke="#f3f4f6"/>'
        f'<text x="{x}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle" fill="#374151">{10**power:,}</text>'
    )


def _line(name: str, points: list[tuple[float, float]], colour: str, label_y: int) -> list[str]:
    path = " ".join(f"{x},{y}" for x, y in points)
    return [
        f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>',
        *(f'<circle cx="{x}" cy="{y}" r="3.5" fill="{colour}"/>' for x, y in points),
        f'<text x="{LEFT}" y="{label_y}" fill="{colour}">{escape(name)}</text>',
    ]
