from __future__ import annotations

import pytest

from pglock_inspect.keys import AdvisoryKey
from pglock_inspect.model import Database, Job, Limits, Name
from pglock_inspect.names import Learner, words
from pglock_inspect.schemes import SCHEMES, Scheme, key_of
from pglock_inspect.schemes.postgres_hash import hashtext, hashtextextended
from tests.support.sessions import DATABASE, OTHER, Polls, Said, holder, key

DIGEST = key_of("send_daily_digest")


def test_a_name_in_the_holders_statement_counts_because_its_hash_is_the_key() -> None:
    names = Polls(Learner()).poll(
        {1: holder(DIGEST, query="SELECT pg_try_advisory_lock(hashtext('send_daily_digest'))")}
    )
    assert names == {DIGEST: Name("send_daily_digest", "query", scheme="hashtext")}


def test_a_name_that_hashes_to_another_key_does_not_count() -> None:
    names = Polls(Learner()).poll(
        {1: holder(DIGEST, query="SELECT hashtext('send_weekly_digest')", application="digest")}
    )
    assert names == {DIGEST: None}


@pytest.mark.parametrize(
    "scheme", [s for s in SCHEMES.values() if s.name != "int"], ids=lambda scheme: scheme.name
)
def test_every_scheme_is_tried(scheme: Scheme) -> None:
    its_key = scheme.key(scheme.example)
    names = Polls(Learner()).poll({1: holder(its_key, query=f"/* {scheme.example} */ SELECT f($1)")})
    name = names[its_key]
    assert name is not None
    assert (name.text, name.source) == (scheme.example, "query")
    assert name.scheme is not None
    assert key_of(name.text, name.scheme) == its_key


def test_the_scheme_that_is_configured_is_tried_first() -> None:
    its_key = key_of("a", "crc32-signed")
    assert its_key == key_of("a", "crc32-unsigned") or its_key != key_of("a", "crc32-unsigned")
    text = next(t for t in map(str, range(100)) if key_of(t, "crc32-signed") == key_of(t, "crc32-unsigned"))
    its_key = key_of(text, "crc32-signed")
    for first in ("crc32-signed", "crc32-unsigned"):
        names = Polls(Learner(scheme=first)).poll({1: holder(its_key, application=text)})
        assert names[its_key] == Name(text, "application_name", scheme=first)


@pytest.mark.parametrize(
    ("its_key", "query", "text", "scheme"),
    [
        ((hashtext(b"a"), hashtext(b"b")), "f(hashtext('a'), hashtext('b'))", "a,b", "hashtext-pair"),
        ((42, hashtext(b"x y")), "f(42, hashtext('x y'))", "42,x y", "hashtext-pair"),
        ((42, hashtext(b"x")), "f($1, hashtext('x'))", "42,x", "hashtext-pair"),
        ((hashtext(b"7"), -7), "f(hashtext('7'), -7)", "'7',-7", "hashtext-pair"),
        (hashtextextended(b"x", 9), "f(hashtextextended('x', 9))", "x", "hashtextextended"),
        (hashtextextended(b"x", -9), "f(hashtextextended('x', -9))", "x", "hashtextextended"),
    ],
)
def test_pairs_and_seeds(its_key: int | tuple[int, int], query: str, text: str, scheme: str) -> None:
    names = Polls(Learner()).poll({1: holder(its_key, query=query)})
    assert names == {key(its_key): Name(text, "query", scheme=scheme)}


@pytest.mark.parametrize("plain", [42, (42, 7)])
def test_a_number_is_no_name_for_itself(plain: int | tuple[int, int]) -> None:
    names = Polls(Learner()).poll({1: holder(plain, query="SELECT f(42, 7) /* 42 */", application="42")})
    assert names == {key(plain): None}


@pytest.mark.parametrize(("text", "small"), [("3", 51), ("ab", 3105)])
def test_a_number_that_a_person_may_have_picked_is_not_taken_for_a_hash(text: str, small: int) -> None:
    assert key_of(text, "java-hashcode") == key(small)
    learner = Learner()
    learner.told((text,))
    assert Polls(learner).poll({1: holder(small, application=f"worker {text}")}) == {key(small): None}


@pytest.mark.parametrize("application", ["send_daily_digest", "worker: send_daily_digest [eu]"])
def test_an_applications_name_or_its_part_is_a_name(application: str) -> None:
    names = Polls(Learner()).poll({1: holder(DIGEST, query="COMMIT", application=application)})
    assert names == {DIGEST: Name("send_daily_digest", "application_name", scheme="hashtext")}


def test_a_waiters_word_names_the_holders_lock_in_its_database_only() -> None:
    call = "SELECT pg_advisory_lock(hashtext('send_daily_digest'))"
    polls = Polls(Learner())
    polls.poll(
        {
            1: holder(DIGEST, query="COMMIT"),
            2: Said(frozenset([DIGEST]), call, granted=False),
            3: Said(frozenset([DIGEST]), "COMMIT", database=OTHER),
        }
    )
    named = {group.rows.pid: bool(group.subjects[0].name) for group in polls.history.groups}
    assert named == {1: True, 2: True, 3: False}


def test_a_name_is_hashed_in_the_encoding_of_the_database(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.support.sessions.DATABASE", Database(5, "app", "LATIN1"))
    latin, utf8 = key_of("café", encoding="latin-1"), key_of("café")
    names = Polls(Learner()).poll({1: holder(latin, utf8, query="SELECT hashtext('café')")})
    assert names == {latin: Name("café", "query", scheme="hashtext"), utf8: None}
    pair = key((hashtext("café".encode("latin-1")), 7))
    names = Polls(Learner()).poll({1: holder(pair, query="SELECT f(hashtext('café'), 7) /* ☃ */")})
    assert names == {pair: Name("café,7", "query", scheme="hashtext-pair")}


def test_a_name_outlives_the_statement_that_told_it() -> None:
    polls = Polls(Learner())
    call = "SELECT pg_advisory_lock(hashtext('send_daily_digest'))"
    polls.poll({1: holder(DIGEST, query=call)})
    polls.poll({})
    names = polls.poll({2: holder(DIGEST, query="COMMIT", application="another")})
    assert names[DIGEST] == Name("send_daily_digest", "query", scheme="hashtext")


def test_the_book_stays_the_same_as_long_as_nothing_is_learned() -> None:
    learner = Learner()
    polls = Polls(learner)
    sessions = {
        1: holder(DIGEST, query="SELECT hashtext('send_daily_digest')"),
        2: holder(99, query="SELECT 'x'"),
    }
    before = learner.book
    polls.poll(sessions)
    learned = learner.book
    assert learned is not before
    for _ in range(3):
        polls.poll(sessions)
    polls.poll({**sessions, 3: holder(98, query="SELECT 'not its name'")})
    assert learner.book is learned


def test_nobody_is_listened_to_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    heard: list[str] = []

    def words_of_statement(statement: str) -> object:
        heard.append(statement)
        return original(statement)

    original = words.words_of_statement
    monkeypatch.setattr("pglock_inspect.names.learner.words_of_statement", words_of_statement)
    polls = Polls(Learner())
    unnamed, named = holder(99, query="SELECT 'x'"), holder(DIGEST, query="SELECT 'send_daily_digest'")
    for _ in range(3):
        polls.poll({1: unnamed, 2: named})
    assert heard == ["SELECT 'x'", "SELECT 'send_daily_digest'"]
    polls.poll({1: holder(99, query="SELECT 'y'"), 2: named})
    assert heard[2:] == ["SELECT 'y'"]
    polls.poll({1: holder(99, 98, query="SELECT 'y'"), 2: named})  # a new key: it may be what was said before
    assert heard[3:] == ["SELECT 'y'"]


def test_a_lock_that_shows_after_its_statement_is_learned() -> None:
    polls = Polls(Learner())
    query = "SELECT pg_advisory_lock(hashtext('send_daily_digest'))"
    polls.poll({1: holder(99, query=query)})
    assert polls.poll({1: holder(99, DIGEST, query=query)})[DIGEST] is not None


def test_what_is_configured_comes_first_and_known_software_last() -> None:
    backup = key_of("pg_backup")
    query = "SELECT pg_try_advisory_lock(hashtext('pg_backup'))"
    polls = Polls(Learner())
    learned = polls.poll({1: holder(backup, query=query)})[backup]
    assert learned == Name(
        "pg_backup", "query", scheme="hashtext", product="WAL-G", scope="session", long_lived=True
    )
    known = Polls(Learner()).poll({1: holder(backup, query="BEGIN")})[backup]
    assert known is not None
    assert (known.text, known.source, known.long_lived) == ("WAL-G backup", "known", True)
    job = Job("pg_backup")
    configured = Polls(Learner([job])).poll({1: holder(backup, query=query)})[backup]
    assert configured == Name("pg_backup", "config", scheme="hashtext", job=job)


TENANTS = Job("tenants", match="tenant:*", limits=Limits(max_held=5), scope="transaction", long_lived=True)


@pytest.mark.parametrize(
    ("its_key", "query"),
    [
        (key_of("tenant:42"), "SELECT hashtext('tenant:42')"),
        (AdvisoryKey.from_pair(7, hashtext(b"tenant:42")), "SELECT f(7, hashtext('tenant:42'))"),
    ],
)
def test_a_pattern_gives_a_learned_name_its_limits(its_key: AdvisoryKey, query: str) -> None:
    name = Polls(Learner([TENANTS])).poll({1: holder(its_key, query=query)})[its_key]
    assert name is not None
    assert name.text.endswith("tenant:42")
    assert (name.job, name.scope, name.long_lived) == (TENANTS, "transaction", True)


def test_a_job_is_told_of_the_product_and_keeps_its_own_limits() -> None:
    job = Job("backups", match="*_backup", limits=Limits(max_held=5))
    backup = key_of("pg_backup")
    name = Polls(Learner([job])).poll({1: holder(backup, query="SELECT 'pg_backup'")})[backup]
    assert name == Name("pg_backup", "query", scheme="hashtext", product="WAL-G", job=job)


def test_a_product_is_under_the_limits_of_the_job_that_it_is_or_matches_and_is_held_for_life_still() -> None:
    prisma, backup = key(72707369), key_of("pg_backup")
    jobs = [Job("Prisma migrations", limits=Limits(max_held=5)), Job("backups", match="* backup")]
    names = Polls(Learner(jobs)).poll({1: holder(prisma), 2: holder(backup)})
    assert names[prisma] == Name(
        "Prisma migrations", "known", product="Prisma Migrate", job=jobs[0], scope="session"
    )
    assert names[backup] == Name(
        *("WAL-G backup", "known", "hashtext", "WAL-G"), job=jobs[1], scope="session", long_lived=True
    )


def test_of_very_many_pairs_only_whole_names_are_learned() -> None:
    whole, half = key_of("a,b", "hashtext-pair"), key((7, hashtext(b"a")))
    many = holder(whole, half, *((n, n) for n in range(1_000)), query="SELECT 'a,b', 'a'")
    names = Polls(Learner()).poll({1: many})
    assert names[whole] == Name("a,b", "query", scheme="hashtext-pair")
    assert names[half] is None


def test_a_pattern_fits_by_case_and_in_its_own_database() -> None:
    jobs = [Job("a", match="TENANT:*"), Job("b", match="tenant:*", database=OTHER.name)]
    name = Polls(Learner(jobs)).poll({1: holder(key_of("tenant:1"), query="SELECT 'tenant:1'")})
    assert name == {key_of("tenant:1"): Name("tenant:1", "query", scheme="hashtext")}


def test_a_job_that_locks_under_another_scheme_is_still_that_job() -> None:
    job, its_key = Job("digest", every=60), key_of("digest", "sha256-64-le")
    name = Polls(Learner([job])).poll({1: holder(its_key, query="SELECT 'digest'")})[its_key]
    assert name == Name("digest", "query", scheme="sha256-64-le", job=job)


def test_the_users_query_names_keys_under_every_scheme() -> None:
    learner = Learner([TENANTS])
    learner.told(("tenant:1", "digest", "42", "a,b"))
    keys = {
        key_of("tenant:1"): Name(
            "tenant:1", "names_query", scheme="hashtext", job=TENANTS, scope="transaction", long_lived=True
        ),
        key_of("digest", "md5-64-be"): Name("digest", "names_query", scheme="md5-64-be"),
        key_of("digest", "with_advisory_lock"): Name("digest", "names_query", scheme="with_advisory_lock"),
        key(42): Name("42", "names_query", scheme="int"),
        key_of("a,b", "hashtext-pair"): Name("a,b", "names_query", scheme="hashtext-pair"),
        key(43): None,
    }
    assert Polls(learner).poll({1: holder(*keys)}) == keys


def test_very_many_names_are_tried_under_the_configured_scheme_only() -> None:
    learner = Learner(scheme="crc32-signed")
    learner.told(tuple(f"job {n}" for n in range(10_000)))
    ours, other = key_of("job 9999", "crc32-signed"), key_of("job 9999", "sha1-64-be")
    names = Polls(learner).poll({1: holder(ours, other)})
    assert names == {ours: Name("job 9999", "names_query", scheme="crc32-signed"), other: None}


def test_the_same_names_again_are_no_news() -> None:
    learner = Learner()
    learner.told(("a", "b"))
    book = learner.book
    learner.told(("a", "b"))
    assert learner.book is book


def test_a_poll_hashes_no_more_than_it_may_and_goes_on_in_the_next() -> None:
    sessions = {
        pid: holder(key_of(f"job {pid}"), query=f"SELECT 'job {pid}'" + ", 'other words'" * (pid % 40))
        for pid in range(1, 2_000)
    }
    polls = Polls(Learner())
    named = [sum(name is not None for name in polls.poll(sessions).values()) for _ in range(40)]
    assert 0 < named[0] < 1_000
    assert named[-1] == len(sessions)


def test_names_that_nobody_holds_are_forgotten_when_there_are_very_many() -> None:
    learner = Learner()
    polls = Polls(learner)
    kept = holder(DIGEST, query="SELECT 'send_daily_digest'")
    for batch in range(12):
        polls.poll(
            {
                1: kept,
                **{
                    pid: holder(key_of(f"{batch} {pid}"), query=f"SELECT '{batch} {pid}'")
                    for pid in range(2, 1_002)
                },
            }
        )
    names = learner._learned.names[DATABASE.oid, 1]
    assert 1_000 < len(names) < 10_000
    assert DIGEST.classid << 32 | DIGEST.objid in names
