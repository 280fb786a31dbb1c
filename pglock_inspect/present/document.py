"""A report as the JSON document, version 1, that scripts, the exporter and recordings share.

``data/report.schema.json`` describes it. Unknown is null, times are RFC 3339 in UTC, durations are seconds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import Raw
from msgspec.json import encode

from pglock_inspect.model import to_datetime
from pglock_inspect.present.text import well_formed

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from datetime import datetime

    from pglock_inspect.keys import AdvisoryKey
    from pglock_inspect.model import Finding, Instant, Lock, Prepared, Report, Server, Session

SCHEMA_VERSION = 1
_EXACT_IN_A_DOUBLE = 1 << 53  # what JavaScript and jq read exactly


def report_document(report: Report, *, queries: bool = True) -> dict[str, Any]:
    """Return the document of a report, for ``msgspec.json.encode``; without ``queries``, not their text."""
    server = report.server
    return {
        "schema_version": SCHEMA_VERSION,
        "target": well_formed(report.target),
        "taken_at": to_datetime(report.taken_at),
        "server": None if server is None else _server(server, report.poll_seconds),
        "capacity": {
            "lock_slots_guaranteed": None if server is None else server.lock_slots_guaranteed,
            "locks": None if server is None else report.lock_table_rows,
        },
        "locks": list(lock_documents(report.locks, queries=queries)),
        "findings": [_finding(finding) for finding in report.findings],
        **({} if report.error is None else {"error": well_formed(report.error)}),
    }


def lock_documents(locks: Iterable[Lock], *, queries: bool = True) -> Iterator[dict[str, Any]]:
    """Yield the document of each lock. A session with many locks is written once and copied."""
    sessions: dict[int, Raw] = {}
    for lock in locks:
        session = lock.session
        if session is not None and session.pid not in sessions:
            sessions[session.pid] = Raw(encode(_session(session, queries=queries)))
        yield _lock(lock, None if session is None else sessions[session.pid])


def key_fields(key: AdvisoryKey) -> dict[str, Any]:
    """Return a key's halves and its value, as text too where a JavaScript reader would round it."""
    value = key.value
    fields: dict[str, Any] = {
        "classid": key.classid,
        "objid": key.objid,
        "objsubid": key.objsubid,
        "form": key.form,
        "value": value,
    }
    if isinstance(value, int) and abs(value) > _EXACT_IN_A_DOUBLE:
        fields["value_text"] = str(value)
    return fields


def _server(server: Server, poll_seconds: float | None) -> dict[str, Any]:
    return {
        "version": well_formed(server.version),
        "version_num": server.version_num,
        "in_recovery": server.in_recovery,
        "privileged": server.privileged,
        "pooler": server.pooler,
        "started_at": _time(server.started_at),
        "database": well_formed(server.database),
        "poll_seconds": poll_seconds,
    }


def _lock(lock: Lock, session: Raw | None) -> dict[str, Any]:
    name, held = lock.name, lock.held
    return {
        "key": {"database": _text(lock.database), **key_fields(lock.key)},
        "job": name and well_formed(name.text),
        "name_source": name and name.source,
        "scheme": name and name.scheme,
        "product": name and _text(name.product),
        "mode": lock.mode,
        "granted": lock.granted,
        "scope": lock.scope,
        "session": session,
        "prepared": lock.prepared and _prepared(lock.prepared),
        "held": held
        and {
            "seconds": held.seconds,
            "at_least": held.at_least,
            "at_most": held.at_most,
            "evidence": held.evidence,
        },
        "waited_seconds": lock.waited_seconds,
        "max_held": lock.max_held,
        "blocked_by": _processes(lock.blocked_by),
        **({} if lock.queued_behind is None else {"queued_behind": _processes(lock.queued_behind)}),
        "waiters": lock.waiters,
        "findings": lock.findings,
    }


def _session(session: Session, *, queries: bool) -> dict[str, Any]:
    return {
        "pid": session.pid,
        "backend_start": _time(session.backend_start),
        "user": _text(session.user),
        "application_name": _text(session.application_name),
        "client": _text(session.client),
        "state": session.state,
        "xact_start": _time(session.xact_start),
        "query_start": _time(session.query_start),
        "state_change": _time(session.state_change),
        "wait_event": session.wait_event,
        "backend_type": session.backend_type,
        "query": _text(session.query) if queries else None,
    }


def _prepared(prepared: Prepared) -> dict[str, Any]:
    return {
        "gid": well_formed(prepared.gid),
        "prepared_at": to_datetime(prepared.prepared_at),
        "owner": _text(prepared.owner),
        "database": _text(prepared.database),
    }


def _finding(finding: Finding) -> dict[str, Any]:
    key = finding.key
    return {
        "rule": finding.rule,
        "severity": finding.severity,
        "job": _text(finding.job),
        "pid": finding.pid,
        "key": key
        and {
            "database": _text(finding.database),
            "classid": key.classid,
            "objid": key.objid,
            "objsubid": key.objsubid,
        },
        "summary": well_formed(finding.summary),
        "evidence": well_formed(finding.evidence),
        "suggestion": well_formed(finding.suggestion),
    }


def _processes(processes: Iterable[int | str]) -> list[int | str]:
    return [well_formed(process) if isinstance(process, str) else process for process in processes]


def _text(text: str | None) -> str | None:
    return None if text is None else well_formed(text)


def _time(instant: Instant | None) -> datetime | None:
    return None if instant is None else to_datetime(instant)
