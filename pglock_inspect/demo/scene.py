"""The scene of the demo: what each of its sessions does, and what a report shows once all are at it.

Each function is a job as an application might run it. One that returns leaves its session as it is then.
"""

# ruff: noqa: S311 - no secret depends on what chance does here

from __future__ import annotations

import asyncio
from contextlib import suppress
from itertools import count
from random import randint, uniform
from typing import TYPE_CHECKING, Any, NamedTuple

from psycopg import AsyncConnection
from psycopg.errors import LockNotAvailable

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Set as AbstractSet

    from pglock_inspect.model import Report, Severity

Session = AsyncConnection[tuple[Any, ...]]


class Part(NamedTuple):
    """Sessions of ``user``, one for each of ``applications``, that all do the same.

    Once the scene is complete, a report shows at least ``held`` locks of ``job`` (None: of a key without a
    name), ``waiting`` that are waited for, and ``findings`` about them.
    """

    job: str | None
    act: Callable[[Session], Awaitable[None]]
    user: str
    applications: tuple[str, ...]
    held: int = 1
    waiting: int = 0
    findings: AbstractSet[tuple[str, Severity]] = frozenset()

    def is_in(self, report: Report) -> bool:
        """Whether a report shows it all."""
        granted = [
            lock.granted for lock in report.locks if (lock.name.text if lock.name else None) == self.job
        ]
        findings = {(each.rule, each.severity) for each in report.findings if each.job == self.job}
        return (
            granted.count(True) >= self.held
            and granted.count(False) >= self.waiting
            and self.findings <= findings
        )


async def send_daily_digest(session: Session) -> None:
    """Run in each replica at the same time: one wins, works for some seconds, and leaves it to the next."""
    while True:
        cursor = await session.execute("SELECT pg_try_advisory_lock(hashtext('send_daily_digest'))")
        if await cursor.fetchone() == (True,):
            await session.execute("UPDATE subscribers SET digest_sent_at = send_digest(id)")
            await session.execute("SELECT pg_advisory_unlock(hashtext('send_daily_digest'))")
            await asyncio.sleep(1)
        await asyncio.sleep(uniform(0.2, 1))


async def rebuild_search_index(session: Session) -> None:
    """Never come to an end; a replica that comes later gives up waiting, and tries again."""
    await session.execute("SET lock_timeout = '8s'")
    while True:
        try:
            await session.execute("SELECT pg_advisory_lock(hashtext('rebuild_search_index'))")
            break
        except LockNotAvailable:
            await asyncio.sleep(uniform(1, 3))
    await session.execute("SELECT id, body FROM articles ORDER BY id LIMIT 100")
    # They go to a search engine now, which does not answer.


async def export_invoices(session: Session) -> None:
    """Leave the lock behind: COMMIT does not release it, and the connection goes back to its pool."""
    await session.execute("BEGIN")
    await session.execute("SELECT pg_try_advisory_lock(hashtext('export_invoices'))")
    await session.execute("INSERT INTO exports DEFAULT VALUES")
    await session.execute("COMMIT")


async def close_month(session: Session) -> None:
    """Forget to commit."""
    await session.execute("BEGIN")
    await session.execute("SELECT pg_advisory_xact_lock(hashtext('close_month'))")
    await session.execute("UPDATE invoices SET closed = true WHERE id <= 100")


async def migrate(session: Session) -> None:
    """Change a table, as golang-migrate does under its lock, until `close_month` is in the way."""
    await session.execute("SELECT pg_advisory_lock(1726534663)")
    for version in count(1):
        await session.execute("ALTER TABLE invoices ADD COLUMN IF NOT EXISTS paid_at timestamptz")
        await session.execute("TRUNCATE schema_migrations")
        await session.execute("INSERT INTO schema_migrations VALUES (%s, false)", [version])
        await asyncio.sleep(0.2)


async def show_prices(session: Session) -> None:
    """Share the price list with others, for some requests at a time."""
    while True:
        async with session.transaction():
            await session.execute("SELECT pg_advisory_xact_lock_shared(hashtext('price_list'))")
            for _ in range(randint(10, 30)):
                await session.execute("SELECT price FROM prices WHERE article = %s", [randint(1, 200)])
                await asyncio.sleep(0.4)
        await asyncio.sleep(0.2)


async def import_prices(session: Session) -> None:
    """Wait until nobody shares the price list, or give up for a moment."""
    await session.execute("SET lock_timeout = '6s'")
    while True:
        await asyncio.sleep(uniform(0.4, 1))
        with suppress(LockNotAvailable):
            async with session.transaction():
                await session.execute("SELECT pg_advisory_xact_lock(hashtext('price_list'))")
                await session.execute("TRUNCATE prices")


async def import_tenant(session: Session) -> None:
    """Go from tenant to tenant, and sometimes meet another import there."""
    while True:
        tenant = randint(1, 4)
        await session.execute("SELECT pg_advisory_lock(7101, %s)", [tenant])
        await asyncio.sleep(uniform(2, 5))
        await session.execute("SELECT pg_advisory_unlock(7101, %s)", [tenant])
        await asyncio.sleep(0.2)


async def settle_payouts(session: Session) -> None:
    """Prepare a transaction that nobody commits; its lock needs no session any more."""
    await session.execute("BEGIN")
    await session.execute("SELECT pg_advisory_xact_lock(hashtext('settle_payouts'))")
    await session.execute("INSERT INTO payouts VALUES (8131, 99.90)")
    await session.execute("PREPARE TRANSACTION 'payout-8131'")
    await session.close()


async def lock_by_hand(session: Session) -> None:
    """Take a key that nobody gave a name, and go for lunch."""
    await session.execute("SELECT pg_advisory_lock(20270115)")


SCENE = (
    Part("send_daily_digest", send_daily_digest, "app", ("worker-1", "worker-2", "worker-3")),
    Part(
        "rebuild_search_index",
        rebuild_search_index,
        "app",
        ("indexer-1", "indexer-2", "indexer-3"),
        waiting=1,
        findings={("stale", "critical"), ("waiting-long", "warning")},
    ),
    Part("export_invoices", export_invoices, "app", ("api-pool-7",), findings={("leaked", "info")}),
    Part("close_month", close_month, "billing", ("billing",), findings={("idle-in-transaction", "warning")}),
    Part(
        "golang-migrate migrations",
        migrate,
        "deploy",
        ("deploy-1", "deploy-2"),
        waiting=1,
        findings={("holder-blocked", "warning")},
    ),
    Part("price_list", show_prices, "shop", ("shop-1", "shop-2", "shop-3"), held=2),
    Part("price_list", import_prices, "shop", ("price-import",), held=0, waiting=1),
    Part("import_tenant", import_tenant, "app", ("import-1", "import-2")),
    Part("settle_payouts", settle_payouts, "billing", ("payouts",), findings={("prepared", "warning")}),
    Part(None, lock_by_hand, "anna", ("psql",), findings={("unnamed", "info")}),
)
