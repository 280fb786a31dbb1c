"""Who waits for whom, as trees: at each root a process that waits for nobody."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from pglock_inspect.model import Lock, Prepared, Report, Session
    from pglock_inspect.present.look import Look

Process = int | str
"""A pid, or the gid of a prepared transaction."""

PREPARED = "a prepared transaction"
"""One that the server did not name."""


class Node(NamedTuple):
    """A process in its tree.

    ``path`` leads from the root to it. ``forks`` tells of each step whether siblings follow. ``waiting`` is
    the advisory lock that it waits for, ``waits_for`` what it waits for otherwise, in words. ``holding`` is a
    lock of it that others wait for. ``blocked_by`` are all that it waits for; the tree shows the first.
    """

    process: Process
    path: tuple[Process, ...]
    forks: tuple[bool, ...]
    session: Session | None = None
    waiting: Lock | None = None
    waits_for: str | None = None
    waited_seconds: float | None = None
    holding: Lock | None = None
    blocked_by: tuple[Process, ...] = ()

    @property
    def lock(self) -> Lock | None:
        """The lock that the process is here for."""
        return self.waiting or self.holding

    @property
    def prepared(self) -> Prepared | None:
        """The prepared transaction that it is; with ``session``, what columns of locks ask for."""
        return self.lock.prepared if self.lock else None


def forest(report: Report) -> list[Node]:
    """Return all that wait, and whom they wait for: each root, and behind it what waits for it, in order."""
    waits, holds = _locks(report)
    nodes = {process: _node(process, report, waits, holds) for process in _processes(report, waits)}
    below: dict[Process, list[Process]] = {}
    roots = []
    for process, node in nodes.items():
        above = next((other for other in node.blocked_by if other != process), None)
        if above is None:
            roots.append(process)
        else:
            below.setdefault(above, []).append(process)
    for waiters in below.values():
        waiters.sort(key=lambda process: _queue_order(nodes[process]))
    roots.sort(key=lambda root: (_longest(below.get(root, ()), nodes), str(root)))
    # What a circle leads to has no root: it is shown from anywhere in it.
    return list(_walk([*roots, *nodes], below, nodes))


def tree_of(lock: Lock, report: Report) -> list[Node]:
    """Return the tree that the process of a lock is in; nothing where it neither waits nor is waited for."""
    process = process_of(lock)
    if lock.granted and not lock.waiters and process not in report.chain:
        return []
    nodes = forest(report)
    mine = next((node for node in nodes if node.process == process), None)
    return [node for node in nodes if mine and node.path[0] == mine.path[0]]


def process_of(lock: Lock) -> Process:
    """Return who holds a lock or waits for it."""
    if lock.pid is not None:
        return lock.pid
    return lock.prepared.gid if lock.prepared else PREPARED


def called(process: Process, look: Look) -> str:
    """Return a process in words."""
    if isinstance(process, int):
        return f"pid {process}"
    return PREPARED if process == PREPARED else f"prepared transaction {look.text(process)}"


def branch(node: Node, look: Look) -> str:
    """Return the lines of the tree that lead to a node."""
    if not node.forks:
        return ""
    *above, last = node.forks
    signs = look.glyphs
    stems = [signs.stem if more else " " * len(signs.stem) for more in above]
    return "".join(stems) + (signs.fork if last else signs.corner)


def queue_order(lock: Lock) -> tuple[int, float, int]:
    """Return what waiters for one key are sorted by: who is ahead, else who has waited longest."""
    return len(lock.queued_behind or ()), -(lock.waited_seconds or 0.0), lock.pid or 0


def _locks(report: Report) -> tuple[dict[Process, Lock], dict[Process, Lock]]:
    """Return for each process the lock that it waits for, and one that others wait for."""
    waits: dict[Process, Lock] = {}
    holds: dict[Process, Lock] = {}
    for lock in (alike.lock for alike in report.alike):
        if not lock.granted:
            waits[process_of(lock)] = lock
        elif lock.waiters:
            holds.setdefault(process_of(lock), lock)
    return waits, holds


def _processes(report: Report, waits: Mapping[Process, Lock]) -> Iterable[Process]:
    found: dict[Process, None] = {}
    for process, lock in waits.items():
        found |= dict.fromkeys((process, *lock.blocked_by))
    for pid, blocked in report.chain.items():
        found |= dict.fromkeys((pid, *(other or PREPARED for other in blocked.blocked_by)))
    return found


def _node(
    process: Process, report: Report, waits: Mapping[Process, Lock], holds: Mapping[Process, Lock]
) -> Node:
    waiting, holding = waits.get(process), holds.get(process)
    blocked = report.chain.get(process) if isinstance(process, int) else None
    lock = waiting or holding
    node = Node(
        process=process,
        path=(),
        forks=(),
        session=lock.session if lock else blocked.session if blocked else None,
        waiting=waiting,
        holding=holding,
    )
    if waiting:
        ahead = waiting.blocked_by or waiting.queued_behind or ()
        return node._replace(waited_seconds=waiting.waited_seconds, blocked_by=ahead)
    if blocked and blocked.waits_for is not None:
        return node._replace(
            waits_for=blocked.waits_for,
            waited_seconds=blocked.waited_seconds,
            blocked_by=tuple(other or PREPARED for other in blocked.blocked_by),
        )
    return node


def _walk(
    starts: Iterable[Process], below: Mapping[Process, list[Process]], nodes: Mapping[Process, Node]
) -> Iterator[Node]:
    seen: set[Process] = set()
    for start in starts:
        ahead: list[tuple[Process, tuple[Process, ...], tuple[bool, ...]]] = [(start, (), ())]
        while ahead:
            process, path, forks = ahead.pop()
            if process in seen or process not in nodes:
                continue
            seen.add(process)
            path = (*path, process)
            yield nodes[process]._replace(path=path, forks=forks)
            waiters = [other for other in below.get(process, ()) if other not in seen]
            ahead += reversed([(other, path, (*forks, other != waiters[-1])) for other in waiters])


def _queue_order(node: Node) -> tuple[int, float, str]:
    ahead = len(node.waiting.queued_behind or ()) if node.waiting else 0
    return ahead, -(node.waited_seconds or 0.0), str(node.process)


def _longest(waiters: Iterable[Process], nodes: Mapping[Process, Node]) -> float:
    return -max((nodes[process].waited_seconds or 0.0 for process in waiters), default=0.0)
