"""What the benchmarks share: interleaved pairs, what a server process costs, and the table of ratios."""

from __future__ import annotations

import json
import statistics
import time
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


class Ratio(NamedTuple):
    """Ours against the yardstick; ``target`` is the highest ratio that is good enough."""

    case: str
    what: str
    ours: float
    yardstick: float
    ratio: float
    target: float | None = None
    unit: Literal["seconds", "bytes"] = "seconds"

    @property
    def verdict(self) -> str:
        if self.target is None:
            return ""
        return "OK" if self.ratio <= self.target else "MISSED"


class Pairs(NamedTuple):
    """Seconds that each of two things took, one after the other in turns."""

    ours: Sequence[float]
    yardstick: Sequence[float]

    def ratio(self, case: str, what: str, target: float | None = None) -> Ratio:
        """Return the median of the pairs' ratios: what slows the machine for a while slows both of a pair."""
        ratios = [mine / theirs for mine, theirs in zip(self.ours, self.yardstick, strict=True)]
        ours, yardstick = statistics.median(self.ours), statistics.median(self.yardstick)
        return Ratio(case, what, ours, yardstick, statistics.median(ratios), target)


def interleave(
    ours: Callable[[], object],
    yardstick: Callable[[], object],
    *,
    pairs: int,
    between: Callable[[], object] = lambda: None,
) -> Pairs:
    """Time both in turns, changing who goes first, after calling ``between``, which is not timed."""
    seconds: tuple[list[float], list[float]] = [], []
    for number in range(pairs):
        between()
        for which in (0, 1) if number % 2 else (1, 0):
            started = time.perf_counter()
            (ours, yardstick)[which]()
            seconds[which].append(time.perf_counter() - started)
    return Pairs(*seconds)


def backend_cpu(pid: int) -> float:
    """Return the seconds of CPU that a process has used so far, to the nanosecond (Linux)."""
    time.sleep(0.002)  # what it does after its answer counts too
    return int(Path(f"/proc/{pid}/schedstat").read_text("ascii").split()[0]) / 1e9


def process_cpu(pid: int) -> float:
    """Return the seconds of CPU that a process has used so far, in all threads that it has or had (Linux)."""
    return time.clock_gettime(~pid << 3 | 2)  # CPUCLOCK_SCHED: the sum of what schedstat shows of each


def resident() -> int:
    """Return how many bytes of memory this process takes (Linux)."""
    status = Path("/proc/self/status").read_text("ascii")
    return int(status.partition("VmRSS:")[2].split()[0]) * 1024


def print_table(ratios: Sequence[Ratio]) -> None:
    width = max(len(ratio.case) for ratio in ratios)
    print(f"{'':{width}}  {'':26}  {'ours':>10}  {'yardstick':>10}  {'ratio':>6}  {'target':>6}")
    case = None
    for ratio in ratios:
        target = "" if ratio.target is None else f"{ratio.target:.2f}"
        ours, yardstick = (shown(value, ratio.unit) for value in (ratio.ours, ratio.yardstick))
        print(
            f"{ratio.case if ratio.case != case else '':{width}}  {ratio.what:26}  {ours:>10}"
            f"  {yardstick:>10}  {ratio.ratio:6.2f}  {target:>6}  {ratio.verdict}".rstrip()
        )
        case = ratio.case


def to_json(ratios: Sequence[Ratio]) -> str:
    return json.dumps([{**ratio._asdict(), "verdict": ratio.verdict or None} for ratio in ratios], indent=2)


def shown(value: float, unit: str) -> str:
    return f"{value / 1e6:,.1f} MB" if unit == "bytes" else f"{value * 1000:,.2f} ms"
