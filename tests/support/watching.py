"""What a watcher says of the server under test, and sessions that wait there."""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING, Any, Protocol

import click
from psycopg.pq import DiagnosticField

from pglock_inspect.cli.app import app
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from pglock_inspect.model import Finding, Held, Job, Lock, Report
    from pglock_inspect.watch import Watcher
    from tests.support.servers import Connection


class Watch(Protocol):
    """Opens a watcher of the shared server, or of `dsn`, that is closed after the test.

    `settings` are those of `Settings`. A rule's name with a number sets its threshold.
    """

    def __call__(
        self,
        *jobs: Job,
        dsn: str | None = None,
        thresholds: dict[str, float] | None = None,
        **settings: Any,  # noqa: ANN401
    ) -> Watcher: ...


def found(report: Report, rule: str, **about: object) -> list[Finding]:
    """The findings of a rule, with these fields; what each suggests is a command that exists."""
    assert report.error is None, report.error
    findings = [
        finding
        for finding in report.findings
        if finding.rule == rule and all(getattr(finding, name) == value for name, value in about.items())
    ]
    for finding in findings:
        for command in re.findall(r"pglock-inspect .+?(?=, or |; |$)", finding.suggestion):
            _understand(command)
    return findings


def _understand(line: str) -> None:
    """Fail if the program does not understand a command."""
    _, name, *arguments = shlex.split(line)
    with click.Context(app, **app.context_settings) as context:
        command = app.get_command(context, name)
        assert command, line
        command.make_context(name, arguments, parent=context)


def soon(watcher: Watcher, rule: str, **about: object) -> Finding:
    """The one finding of a rule, with these fields, as soon as a poll shows it."""
    findings = wait_until(lambda: found(watcher.poll(), rule, **about), f"{rule} {about}")
    assert len(findings) == 1, findings
    return findings[0]


def locks_of(report: Report, connection: Connection, *, granted: bool = True) -> list[Lock]:
    """The locks that a session holds or waits for, by key."""
    assert report.error is None, report.error
    pid = connection.info.backend_pid
    return sorted(
        (lock for lock in report.locks if lock.pid == pid and lock.granted is granted),
        key=lambda lock: lock.key,
    )


def lock_of(report: Report, connection: Connection, *, granted: bool = True) -> Lock:
    """The only lock that a session holds or waits for."""
    (lock,) = locks_of(report, connection, granted=granted)
    return lock


def held_of(report: Report, connection: Connection) -> Held:
    """How long a session has held its only lock."""
    held = lock_of(report, connection).held
    assert held is not None
    return held


def await_lock(watcher: Watcher, connection: Connection, *, granted: bool = True) -> Lock:
    """The only lock that a session holds or waits for, as soon as a poll shows it."""
    what = f"pid {connection.info.backend_pid} {'holds' if granted else 'waits'}"
    wait_until(lambda: locks_of(watcher.poll(), connection, granted=granted), what)
    return lock_of(watcher.poll(), connection, granted=granted)


def begin(connection: Connection, statement: str) -> None:
    """Send a statement, or several, and do not wait for its end."""
    connection.pgconn.send_query(statement.encode())


def finish(connection: Connection) -> str | None:
    """Wait for what was begun; returns the SQLSTATE of an error."""
    error: str | None = None
    while result := connection.pgconn.get_result():
        if code := result.error_field(DiagnosticField.SQLSTATE):
            error = code.decode()
    return error
