"""
Numbers, times and sizes as a chart, a page and the terminal write them.
"""

from collections.abc import Callable

from store.home.instants import moment

Written = Callable[[float], str]

DAY = 86_400_000_000  # microseconds
_SHORT = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))


def count(value: float) -> str:
    """Return 12345 as "12,345"; what is no whole number keeps two digits."""
    return f"{value:,.0f}" if value == int(value) else f"{value:,.2f}"


def short(value: float) -> str:
    """Return 12345 as "12.3k": as short as an axis needs it."""
    for size, unit in _SHORT:
        if abs(value) >= size:
            return f"{value / size:.3g}{unit}"
    return f"{value:.3g}"


def percent(value: float) -> str:
    return f"{100 * value:.0f} %"


def milliseconds(value: float) -> str:
    """Return "0.4 ms", "12 ms" or "1.2 s"."""
    if value >= 1_000:
        return f"{value / 1_000:.3g} s"
    return f"{value:.1f} ms" if value < 10 else f"{value:.0f} ms"


def dollars(value: float) -> str:
    """Return "$0.0021", "$0.01" or "$12.30": a call costs a fraction of a cent."""
    if value >= 1:
        return f"${value:,.2f}"
    cents, rest = f"{value:.4f}"[:4], f"{value:.4f}"[4:].rstrip("0")
    return f"${cents}{rest}"


def size(value: float) -> str:
    """Return bytes as people read them."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if value < 1024:
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1024
    return f"{value:.1f} TiB"


def day(at: float) -> str:
    """Return microseconds UTC as "2026-11-20"."""
    return moment(int(at)).strftime("%Y-%m-%d")


def day_of_year(at: float) -> str:
    """Return microseconds UTC as "20 Nov"."""
    return moment(int(at)).strftime("%d %b").lstrip("0")


def minute(at: float) -> str:
    """Return microseconds UTC as "13:08"."""
    return moment(int(at)).strftime("%H:%M")
