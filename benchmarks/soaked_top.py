"""``python -m benchmarks.soaked_top DSN FILE N M``: top, refreshed without a pause.

It writes into the file how many bytes of memory it takes after N refreshes, and after M of them. Before each
poll, a lock is released and another taken.
"""

from __future__ import annotations

import sys
from pathlib import Path
from threading import Semaphore
from typing import TYPE_CHECKING

import psycopg

from benchmarks.harness import resident
from pglock_inspect import __main__, watch
from pglock_inspect.top.feed import Feed

if TYPE_CHECKING:
    from pglock_inspect.model import Report
    from pglock_inspect.top.view import Sight

_, dsn, file, *refreshes = sys.argv
shown = Semaphore()
polls = 0
changing = psycopg.connect(dsn, autocommit=True)
_poll, _receive = watch.Watcher.poll, Feed.receive


def poll(watcher: watch.Watcher) -> Report:
    global polls  # noqa: PLW0603
    shown.acquire()
    changing.execute("SELECT pg_advisory_unlock_all(), pg_advisory_lock(%s)", [1_000_000 + polls])
    polls += 1
    if str(polls) in refreshes:
        with Path(file).open("a", encoding="ascii") as sizes:
            sizes.write(f"{resident()}\n")
    return _poll(watcher)


def receive(feed: Feed, sight: Sight, now: float) -> None:
    _receive(feed, sight, now)
    shown.release()


watch.Watcher.poll, Feed.receive = poll, receive  # type: ignore[method-assign]
watch.pause = lambda *_: 0.0
sys.argv[1:] = ["top", "--dsn", dsn]
sys.exit(__main__.main())
