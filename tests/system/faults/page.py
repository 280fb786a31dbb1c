"""`docs/reliability.md`, written from what the test of the faults asserts: `make docs`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from pglock_inspect.watch import LONGEST_BACKOFF
from tests.system.faults.faults import FAULTS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.system.faults.faults import Fault

PAGE = Path(__file__).parents[3] / "docs/reliability.md"

_HEAD = """\
# What happens when something breaks

Each row is a test. On a real server a worker holds the lock of a job; the library's watcher, `serve`, `top`
and `check --state-file` watch it. Something breaks, and each of the four is waited for to show what stands
here. Then it is mended, and each is waited for to show the lock as it is. `make docs` writes this page
from what the test asserts.

- **Failed polls** is how many may still fail once it is mended: the one that was under way, if any. A poll is
  made at every interval, and after failures in a row less and less often, up to {longest:.0f} s apart.
  `check` is right the next time it is run.
- **Lost** is what was known before and is not known after. Where that is nothing, the hold is still the same
  one, as old as it is, and each counter of `serve` goes on from where it was. No session of a watcher is left
  behind.

| what breaks | watcher | `serve` | `top` | `check` | failed polls | lost |
|---|---|---|---|---|---|---|
"""


def page() -> str:
    return _HEAD.format(longest=LONGEST_BACKOFF) + "".join(
        f"| {' | '.join(_row(fault))} |\n" for fault in FAULTS
    )


def _row(fault: Fault) -> Iterator[str]:
    yield fault.name
    for parts in fault.shown:
        yield " … ".join(f"`{part}`" for part in parts)
    yield "none at any time" if fault.failures is None else f"{fault.failures} at most"
    if fault.steps_clock:
        yield "ages from before the step"
    elif fault.ends_holds:
        yield "nothing: the hold ended with its session"
    else:
        yield "nothing"


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
