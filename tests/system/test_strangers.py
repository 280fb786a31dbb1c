"""Servers that speak PostgreSQL's protocol and are something else: every command says so in a sentence."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, NamedTuple

import pytest

from pglock_inspect.errors import ServerFailure
from pglock_inspect.postgres.examine import measure
from tests.support.exporter import Exporter
from tests.support.stranger import Error, Rows, stranger
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.command import Pglock

COCKROACH = "CockroachDB CCL v23.1.11 (x86_64-pc-linux-gnu, built 2023/09/27, go1.19.10)"
REDSHIFT = "PostgreSQL 8.0.2 on i686-pc-linux-gnu, compiled by GCC gcc (GCC) 3.4.2, Redshift 1.0.12103"
DSQL = "PostgreSQL 16"


def cockroach(statement: str) -> Rows | Error:
    return Rows((COCKROACH,)) if statement == "SELECT version()" else Error("42883", "unknown function")


def only_utf8(parameters: dict[str, str]) -> Error | None:
    encoding = parameters.get("client_encoding", "UTF8")
    return None if encoding == "UTF8" else Error("0A000", f'unimplemented client encoding: "{encoding}"')


def redshift(statement: str) -> Rows | Error:
    if "quote_ident" in statement:
        return Rows((REDSHIFT, "app", 17, True))
    return Error("42883", "function does not exist\x1b[2J")


def dsql(statement: str) -> Rows | Error:
    if "quote_ident" in statement:
        return Rows((DSQL, "app", 17, True))
    if statement == "SELECT pg_catalog.pg_backend_pid()":
        return Rows((17,))
    return Error("0A000", "function pg_try_advisory_lock not supported")


STRANGERS = {
    "refuses the encoding": (cockroach, only_utf8),
    "has other functions": (redshift, lambda _: None),
    "has no rows": (lambda _: Rows(None), lambda _: None),
    "knows nothing": (lambda _: Rows((None,)), lambda _: None),
    "understands nothing": (lambda _: Error("42601", "syntax error"), lambda _: None),
    "fails": (lambda _: Error("XX000", "internal error"), lambda _: None),
}


class Stranger(NamedTuple):
    name: str
    dsn: str


@pytest.fixture(params=STRANGERS)
def somebody(request: pytest.FixtureRequest) -> Iterator[Stranger]:
    with stranger(*STRANGERS[request.param]) as dsn:
        yield Stranger(request.param, dsn)


@pytest.mark.parametrize(
    "command",
    [
        ["ls"],
        ["check"],
        ["why", "job"],
        ["kill", "1", "--yes"],
        ["doctor"],
        ["key", "job", "--scheme", "hashtext"],
        ["identify", "1"],
        ["run", "job", "--", "true"],
    ],
    ids=lambda command: command[0],
)
def test_every_command_says_so_in_a_sentence(stray: Pglock, somebody: Stranger, command: list[str]) -> None:
    done = stray(command[0], "--dsn", somebody.dsn, *command[1:], code=None)
    assert done.returncode or "job is busy: skipped" in done.stderr  # NULL is no lock
    assert "unforeseen" not in done.stderr
    assert all(line.isprintable() for line in (done.stderr + done.stdout).splitlines())
    assert done.stderr.startswith("pglock-inspect: ") or done.stdout


def test_the_exporter_says_so_once(stray: Pglock, somebody: Stranger) -> None:
    with Exporter(stray, "--dsn", somebody.dsn, "--interval", "200ms") as exporter:
        wait_until(lambda: sum(exporter.values("pglock_poll_failures_total").values()) > 1, "it polled twice")
        assert exporter.values("pglock_up").popitem()[1] == 0
        listening, told = exporter.stop().said.splitlines()
    assert listening.startswith("pglock-inspect: listening on ")
    assert told.isprintable()
    assert "unforeseen" not in told


def test_a_known_product_is_named_even_where_there_is_no_session() -> None:
    with stranger(cockroach, only_utf8) as dsn, pytest.raises(ServerFailure) as caught:
        measure(dsn)
    said = "it is CockroachDB, not PostgreSQL itself: pg_advisory_lock() there does nothing"
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (redshift, "Amazon Redshift, not PostgreSQL itself: it has no advisory locks"),
        (dsql, "it calls itself 'PostgreSQL 16', which is not PostgreSQL itself"),
    ],
    ids=["Redshift", "DSQL"],
)
def test_locks_that_are_not_there_are_a_failure(stray: Pglock, answer: object, told: str) -> None:
    with ExitStack() as stack:
        dsn = stack.enter_context(stranger(answer))  # type: ignore[arg-type]
        done = stray("doctor", "--dsn", dsn, code=2)
    assert told in done.stdout
    assert "let no job here rely on advisory locks" in done.stdout
