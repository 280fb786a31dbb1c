"""Any report at all, its text as hostile as text can be."""

from __future__ import annotations

from hypothesis import strategies as st
from msgspec.structs import replace

from pglock_inspect.keys import AdvisoryKey
from pglock_inspect.model import Finding, Held, Instant, Job, JobState, Lock, Name, Prepared, Report, Session
from tests.support.reports import SERVER, make_report

TEXTS = st.one_of(
    st.text(st.characters()),  # surrogates too
    st.sampled_from(
        ["\x1b[2J\x1b]0;title\x07", "\u202etxt.exe", "=1+1", "@SUM(A1)", "a|b=c'd", "[red]x[/]", "\r\n"]
    ),
)
INSTANTS = st.integers(0, 10**15).map(Instant)
SECONDS = st.floats(0, 1e9)
KEYS = st.builds(
    AdvisoryKey,
    st.integers(0, 2**32 - 1),
    st.integers(0, 2**32 - 1),
    st.sampled_from([1, 1, 2, 2, 0, 3, 65535]),
)


def maybe(strategy: st.SearchStrategy[object]) -> st.SearchStrategy[object]:
    return st.one_of(st.none(), strategy)


SESSIONS = st.builds(
    Session,
    pid=st.integers(1, 2**31 - 1),
    user=maybe(TEXTS),
    application_name=maybe(TEXTS),
    client=maybe(TEXTS),
    state=maybe(st.sampled_from(["active", "idle", "idle in transaction", "idle in transaction (aborted)"])),
    backend_start=maybe(INSTANTS),
    query=maybe(TEXTS),
)
PROCESSES = st.lists(st.one_of(st.integers(1, 2**31 - 1), TEXTS), max_size=3).map(tuple)
RULES = st.lists(st.sampled_from(["stale", "unnamed", "prepared"]), unique=True).map(tuple)
SEVERITIES = st.sampled_from(["info", "warning", "critical"])
LOCKS = st.builds(
    Lock,
    key=KEYS,
    database=maybe(TEXTS),
    name=maybe(
        st.builds(
            Name, TEXTS, st.sampled_from(["config", "known"]), product=maybe(TEXTS), maybe=st.booleans()
        )
    ),
    mode=st.sampled_from(["ExclusiveLock", "ShareLock"]),
    granted=st.booleans(),
    scope=st.sampled_from(["session", "transaction", None]),
    pid=maybe(st.integers(1, 2**31 - 1)),
    session=maybe(SESSIONS),
    prepared=maybe(st.builds(Prepared, TEXTS, INSTANTS, maybe(TEXTS), maybe(TEXTS))),
    held=maybe(
        st.builds(
            Held,
            maybe(SECONDS),
            maybe(SECONDS),
            maybe(SECONDS),
            st.sampled_from(["stamp", "observed", "none"]),
        )
    ),
    waited_seconds=maybe(SECONDS),
    max_held=maybe(SECONDS),
    blocked_by=PROCESSES,
    queued_behind=maybe(PROCESSES),
    waiters=st.integers(0, 100_000),
    findings=RULES,
    severity=maybe(SEVERITIES),
)
FINDINGS = st.builds(
    Finding,
    rule=st.just("stale"),
    severity=SEVERITIES,
    summary=TEXTS,
    evidence=TEXTS,
    suggestion=TEXTS,
    job=maybe(TEXTS),
    pid=maybe(st.integers(1, 2**31 - 1)),
    database=maybe(TEXTS),
    key=maybe(KEYS),
    about=st.just(()),
)
JOB_STATES = st.builds(
    JobState,
    job=st.builds(
        Job, name=TEXTS, key=st.none(), first=st.none(), match=st.none(), every=st.none(), heartbeat=st.none()
    ),
    database=maybe(TEXTS),
    held=st.integers(0, 3),
    waiters=st.integers(0, 3),
    held_seconds=maybe(SECONDS),
    wait_seconds=maybe(SECONDS),
    last_held=st.none(),
)


@st.composite
def reports(draw: st.DrawFn) -> Report:
    locks = draw(st.lists(LOCKS, max_size=4))
    return replace(
        make_report(*locks, findings=tuple(draw(st.lists(FINDINGS, max_size=3)))),
        target=draw(TEXTS),
        server=draw(
            st.one_of(st.just(SERVER), st.builds(replace, st.just(SERVER), database=TEXTS, version=TEXTS))
        ),
        jobs=tuple(draw(st.lists(JOB_STATES, max_size=2))),
    )


@st.composite
def failures(draw: st.DrawFn) -> Report:
    return replace(make_report(), server=None, error=draw(TEXTS), failure="other", target=draw(TEXTS))
