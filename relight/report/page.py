"""The page: the content through the template, with everything escaped that is not ours."""

from __future__ import annotations

from datetime import datetime
from importlib.resources import files
from typing import Final

from jinja2 import Environment, StrictUndefined

from relight.report import plots
from relight.report.content import PHASES, Content

_MINUTE: Final = 60
_HOUR: Final = 3600


def moment(value: datetime | None, exact: bool = False) -> str:  # noqa: FBT001, FBT002 - a template's filter
    """A time as people read it; `exact` with milliseconds."""
    if value is None:
        return "-"
    return value.isoformat(sep=" ", timespec="milliseconds" if exact else "seconds")[: 23 if exact else 19]


def seconds(value: float | None) -> str:
    """A duration as people read it; what is not known is a dash, never nothing."""
    if value is None or value != value:  # noqa: PLR0124 - an empty percentile is not a number
        return "\N{EN DASH}"
    if abs(value) < _MINUTE:
        return f"{value:.1f} s"
    if abs(value) < _HOUR:
        return f"{value / _MINUTE:.1f} min"
    return f"{value / _HOUR:.1f} h"


_TURNS: Final = {
    ord(mark): "\N{REPLACEMENT CHARACTER}"
    for mark in "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u200e\u200f"
}


def still(value: object) -> object:
    """Text of others without marks that turn the reading round or control characters: escaping does not take these."""
    if not isinstance(value, str):
        return value
    return "".join(
        letter if letter >= " " or letter in "\n\t" else "\N{REPLACEMENT CHARACTER}"
        for letter in value.translate(_TURNS)
    )


def words(value: str) -> str:
    """A name of ours in words."""
    return value.replace("_", " ") or "-"


def make_page(content: Content) -> str:
    """One HTML file, nothing fetched from anywhere."""
    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True, finalize=still
    )
    environment.globals |= {"plot": plots}
    environment.filters |= {"moment": moment, "seconds": seconds, "words": words}
    template = files("relight.report").joinpath("template.html").read_text(encoding="utf-8")
    return environment.from_string(template).render(content=content, phases=PHASES)
