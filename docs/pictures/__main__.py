"""Play the demo for a minute, and draw what top shows of it then."""

from __future__ import annotations

import asyncio
import random
import time
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from docs.pictures.drawing import draw
from pglock_inspect.config import load_settings
from pglock_inspect.demo.scene import SCENE
from pglock_inspect.demo.server import TemporaryServer
from pglock_inspect.demo.workload import CONFIGURATION, SERVER_SETTINGS, Workload
from pglock_inspect.watch import Watcher

if TYPE_CHECKING:
    from pglock_inspect.model import Report

HERE = Path(__file__).parent
PICTURES = {
    "locks": (),
    "jobs": ("2",),
    "waits": ("3", "j"),
    "findings": ("4",),
}
"""Names of files, and the keys that are pressed before each is drawn."""

_POLLS = 45


def play() -> list[Report]:
    """Return what polls of the demo showed, the last of them all that it has to show."""
    settings = load_settings(config=CONFIGURATION, environ={}, cwd=HERE)
    random.seed(8131)
    with (
        TemporaryServer(settings=SERVER_SETTINGS) as server,
        Workload(server) as workload,
        Watcher(workload.dsn(), settings, target="demo") as watcher,
    ):
        reports = [workload.wait(watcher)]
        while len(reports) < _POLLS or not all(part.is_in(reports[-1]) for part in SCENE):
            time.sleep(settings.interval)
            reports.append(watcher.poll())
    # What differs from run to run, and tells nobody anything.
    return [replace(report, poll_seconds=0.0015) for report in reports]


def main() -> None:
    """Draw them all."""
    reports = play()
    for name, keys in PICTURES.items():
        (HERE / f"{name}.svg").write_text(asyncio.run(draw(reports, keys)), encoding="utf-8")


if __name__ == "__main__":
    main()
