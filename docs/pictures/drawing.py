"""Reports, as top shows them, as SVG that needs nothing from elsewhere."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from pglock_inspect.present.look import Look
from pglock_inspect.top.polling import Poller
from pglock_inspect.top.servers import Source
from pglock_inspect.top.ui import themes
from pglock_inspect.top.ui.app import TopApp

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pglock_inspect.model import Report
    from pglock_inspect.top.polling import Listener

SIZE = (100, 34)
_FONTS = "ui-monospace, Menlo, Consolas, 'DejaVu Sans Mono', monospace"


class Told(Poller):
    """Tells reports that were taken before, all at once."""

    def __init__(self, reports: Sequence[Report], interval: float) -> None:
        super().__init__(lambda: reports[-1], interval)
        self._reports = reports

    def listen(self, listener: Listener) -> None:
        """Tell them."""
        for report in self._reports:
            listener(report)


async def draw(reports: Sequence[Report], keys: Sequence[str], *, interval: float = 1.0) -> str:
    """Return what top shows after these reports, once some keys were pressed."""
    app = TopApp([Source(reports[-1].target, Told(reports, interval))], Look(), clock=lambda: 0.0)
    app.theme = themes.DARK.name
    async with app.run_test(size=SIZE) as pilot:
        await pilot.pause()
        await pilot.press(*keys)
        await pilot.pause()
        return self_contained(app.export_screenshot(title="pglock-inspect top", simplify=True))


def self_contained(svg: str) -> str:
    """Return a picture with fonts that the reader has, instead of some from the network."""
    svg = re.sub(r"\s*(@font-face \{.*?\}|<!--.*?-->)", "", svg, flags=re.DOTALL)
    svg = svg.replace("Fira Code, monospace", _FONTS)
    return "\n".join(line.rstrip() for line in svg.splitlines()) + "\n"
