"""Colors by meaning: for a dark and a light background, and from the terminal's own sixteen."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING

from rich.style import Style
from textual.color import Color
from textual.theme import BUILTIN_THEMES, Theme

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pglock_inspect.present.spans import Meaning

DARK = Theme(
    name="pglock-dark",
    dark=True,
    primary="#6cb6ff",
    background="#0f141b",
    surface="#161d27",
    panel="#1c2532",
    foreground="#cdd6e0",
    variables={
        "strong": "#f3f6fa",
        "quiet": "#7b8796",
        "good": "#3fb68b",
        "info": "#5cc5e8",
        "warned": "#e8b54a",
        "critical": "#ff7b7b",
        "line": "#2b3747",
        "selected": "#23364f",
        "selected-blurred": "#1c2838",
    },
)
LIGHT = Theme(
    name="pglock-light",
    dark=False,
    primary="#0b63c4",
    background="#fcfcfd",
    surface="#eff2f6",
    panel="#e6ebf1",
    foreground="#2c343e",
    variables={
        "strong": "#0b0f14",
        "quiet": "#5d6875",
        "good": "#14804f",
        "info": "#00709e",
        "warned": "#8f5f00",
        "critical": "#c4232b",
        "line": "#cbd3dc",
        "selected": "#d4e6fb",
        "selected-blurred": "#e6edf5",
    },
)
_TERMINALS_OWN = BUILTIN_THEMES["ansi-dark"]
ANSI = replace(
    _TERMINALS_OWN,
    name="pglock-ansi",
    variables={
        **_TERMINALS_OWN.variables,
        **dict.fromkeys(DARK.variables, "ansi_default"),
        "good": "ansi_green",
        "info": "ansi_cyan",
        "warned": "ansi_yellow",
        "critical": "ansi_red",
    },
)

ALL = {theme.name: theme for theme in (DARK, LIGHT, ANSI)}


@cache
def styles_of(theme: str) -> Mapping[Meaning, Style]:
    """Return how a theme of this name shows each meaning."""
    variables = ALL[theme].variables

    def color(name: str, *, bold: bool = False) -> Style:
        return Style(color=Color.parse(variables[name]).rich_color, bold=bold or None)

    return {
        "text": Style(),
        "strong": color("strong", bold=True),
        "quiet": color("quiet"),
        "good": color("good"),
        "info": color("info"),
        "warning": color("warned"),
        "critical": color("critical", bold=True),
    }
