"""Any rows that a server could show, or could not, of `locks.sql`, `activity.sql` and `prepared.sql`.

Processes, databases and transactions are few, so that rows meet, and contradict, each other.
"""

from __future__ import annotations

from itertools import accumulate
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

from hypothesis import strategies as st
from msgspec.structs import replace

from pglock_inspect.config import Settings
from pglock_inspect.findings import RULES
from pglock_inspect.keys import AdvisoryKey
from pglock_inspect.model import Database, Instant, Job, Limits, RuleSettings, Snapshot
from pglock_inspect.postgres import rows
from pglock_inspect.schemes import SCHEMES
from tests.support.any_reports import TEXTS, maybe
from tests.support.polls import SERVER
from tests.support.reports import NOW

if TYPE_CHECKING:
    from pglock_inspect.postgres.directory import Directory

JOBS = (
    Job("digest", every=60.0, heartbeat=1.0, min_held=5.0, limits=Limits(10.0, 1.0)),
    Job("other", AdvisoryKey.from_bigint(7), database="app", scope="transaction"),
    Job("a\x1b[2J|%", AdvisoryKey.from_pair(7, -42), long_lived=True),
    Job("tenant", match="tenant:*", every=1.0),
    Job("pairs", first=7),
    Job("same", AdvisoryKey.from_bigint(7)),
)
NAMES = ["digest", "tenant:17", "other", "send_daily_digest"]
_HASHED = [SCHEMES["hashtext"].key(name) for name in NAMES]

_PIDS = st.integers(1, 4)
_OIDS = st.sampled_from([0, 5, 5, 5, 6, 7, 2**32 - 1])
_TRANSACTIONS = st.sampled_from(["3/17", "3/18", "4/2", "-1/730", "/", "", "x"]).map(str.encode)
_XIDS = st.sampled_from([b"730", b"731", b""])
_KEYS = st.sampled_from([key.classid << 32 | key.objid for key in _HASHED]) | st.one_of(
    st.integers(0, 8), st.integers(7 << 32, (7 << 32) + 8), st.integers(0, 2**64 - 1)
)
_MODES = st.sampled_from([b"ExclusiveLock", b"ExclusiveLock", b"ShareLock", b"AccessExclusiveLock", b"\xff"])
_INSTANTS = st.one_of(
    st.integers(-4_000_000_000, 4_000_000_000).map(lambda off: NOW + off),  # about an hour
    st.integers(-(2**63), 2**63 - 1),  # the ends of which are infinite
)
_QUERIES = st.sampled_from(
    [
        b"SELECT pg_advisory_lock(hashtext('digest'))",
        b"SELECT pg_advisory_lock(hashtext('tenant:17')) /* other */",
        b"CALL work()",
        b"<insufficient privilege>",
        b"pg_advisory_lock('" * 9,
    ]
)
_BYTES = st.one_of(
    _QUERIES,
    st.binary(max_size=30),
    TEXTS.map(lambda text: text.encode("utf-8", "surrogatepass")),
    st.sampled_from(NAMES).map(str.encode),
)
_STATES = st.sampled_from(
    [b"active", b"idle", b"idle in transaction", b"fastpath function call", b"", b"\xff"]
)


def _array(keys: list[int]) -> bytes:
    return bytes(20) + b"".join(b"\x00\x00\x00\x08" + key.to_bytes(8) for key in keys)


_ADVISORY = st.tuples(
    st.just(b"advisory"),
    maybe(_PIDS),
    _TRANSACTIONS,
    _OIDS,
    st.sampled_from([1, 1, 1, 2, 2, 0, 3, 65535]),
    _MODES,
    st.booleans(),
    maybe(_INSTANTS),
    st.none(),
    st.integers(0, 2**40),  # rows that are alike: no memory has room for more
    st.lists(_KEYS, max_size=4).map(_array),
)
_OTHERS = st.tuples(
    st.sampled_from([b"relation", b"transactionid", b"virtualxid", b"\xff"]),
    maybe(_PIDS),
    _TRANSACTIONS,
    maybe(_OIDS),
    maybe(st.integers(0, 9)),
    _MODES,
    st.booleans(),
    maybe(_INSTANTS),
    maybe(_XIDS),
    st.integers(0, 9),
    st.none(),
)
_WAITS = st.sampled_from(
    [(None, None), (b"Lock", b"advisory"), (b"Client", b"ClientRead"), (b"\x1b", b"\xff")]
)
_SESSIONS = st.builds(
    lambda head, times, waits, tail: (*head, *times, *waits, *tail),
    st.tuples(
        _PIDS,
        maybe(_OIDS),
        maybe(st.integers(10, 12)),
        maybe(_BYTES),
        maybe(st.sampled_from([b"10.0.0.7", b"fe80::1", b"", b"\xff"])),
        maybe(st.integers(-1, 65535)),
        maybe(_STATES),
    ),
    st.tuples(*[maybe(_INSTANTS)] * 4),
    _WAITS,
    st.tuples(
        maybe(st.sampled_from([b"client backend", b"parallel worker", b"\xff"])),
        maybe(st.integers(-(2**31), 2**31 - 1)),
        maybe(_BYTES),
    ),
)
_PREPARED = st.tuples(_XIDS, _BYTES, _INSTANTS, st.integers(10, 12), _OIDS)
# As a directory has them: no name has a NUL, and what is no UTF-8 stands there as escapes.
_NAMES = TEXTS.map(lambda text: text.replace("\0", "").encode("utf-8", "backslashreplace").decode())
_DATABASES = st.dictionaries(
    st.sampled_from([5, 6, 0]),
    st.tuples(
        st.just("app") | _NAMES, st.sampled_from(["UTF8", "SQL_ASCII", "LATIN1", "WIN1252", "EUC_TW", "SJIS"])
    ),
).map(lambda found: {oid: Database(oid, *told) for oid, told in found.items()})
_ROLES = st.dictionaries(st.integers(10, 12), _NAMES)
_ORDINARY_PIDS = st.lists(st.integers(0, 5), max_size=4).map(tuple)


class _Decoders:
    """What a reader decodes with; it knows again what it saw before."""

    def __init__(self) -> None:
        self.locks, self.sessions = rows.LockDecoder(), rows.SessionDecoder()


def _snapshot(draw: st.DrawFn, decoders: _Decoders, taken_at: Instant, asked_at: float) -> Snapshot:
    directory = cast(
        "Directory", SimpleNamespace(databases=draw(_DATABASES), roles=draw(_ROLES), privileged=True)
    )
    lock_rows = draw(st.lists(st.one_of(_ADVISORY, _ADVISORY, _OTHERS), max_size=6))
    return Snapshot(
        taken_at=taken_at,
        asked_at=asked_at,
        answered_at=asked_at + draw(st.sampled_from([0.0, 0.001, 60.0])),
        server=replace(
            SERVER,
            version_num=draw(st.sampled_from([12_00_00, 14_00_00, 18_00_06, 0, 2**31 - 1])),
            in_recovery=draw(st.booleans()),
            privileged=draw(st.booleans()),
            pooler=draw(st.sampled_from([None, True])),
            started_at=draw(st.sampled_from([NOW, NOW, NOW, None, Instant(2**63 - 1)])),
            max_connections=draw(st.integers(0, 3)),
            lock_slots_guaranteed=draw(st.sampled_from([0, 1, 6400])),
        ),
        locks=decoders.locks.advisory(lock_rows),
        sessions=decoders.sessions.sessions(draw(st.lists(_SESSIONS, max_size=4)), directory),
        prepared=rows.prepared(lock_rows, draw(st.lists(_PREPARED, max_size=2)), directory),
        databases=directory.databases,
        other_waits=rows.other_waits(lock_rows),
        blocking=draw(st.dictionaries(_PIDS, _ORDINARY_PIDS, max_size=3)),
        lock_table_rows=rows.slots(lock_rows),
        poll_seconds=0.001,
    )


@st.composite
def polls(draw: st.DrawFn) -> list[Snapshot]:
    """Poll after poll of one server, whose clock may step."""
    steps = draw(st.lists(st.sampled_from([1.0, 1.0, 3_600.0, -3_600.0, 0.0]), min_size=1, max_size=4))
    decoders = _Decoders()
    return [
        _snapshot(draw, decoders, Instant(NOW + round(seconds * 1_000_000)), float(number))
        for number, seconds in enumerate(accumulate(steps))
    ]


SETTINGS = st.builds(
    Settings,
    jobs=st.lists(st.sampled_from(JOBS), unique=True).map(tuple),
    limits=st.builds(Limits, *[st.sampled_from([0.0, 1.0, 3_600.0])] * 2),
    rules=st.dictionaries(
        st.sampled_from([rule.name for rule in RULES]),
        st.builds(
            RuleSettings,
            severity=st.sampled_from([None, "off", "info", "warning", "critical"]),
            threshold=st.sampled_from([None, 0.0, 1.0, 100.0]),
        ),
        max_size=4,
    ),
    scheme=st.sampled_from(sorted(SCHEMES)),
)
