"""Every product of the data file is recognised, or it is honestly said why not."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from msgspec.structs import asdict

from pglock_inspect.model import Database
from pglock_inspect.names import Learner
from pglock_inspect.names.catalogue import Claim, Example, Software, catalogue, claims, key_written, traces
from pglock_inspect.names.traces import parse_trace
from pglock_inspect.schemes import SCHEMES, key_of
from tests.support.known_software import APP, known, traces_of
from tests.support.sessions import Polls, holder

if TYPE_CHECKING:
    from pglock_inspect.names.catalogue import KnownLock

SOFTWARE = {software.id: software for software in catalogue()}

# By its first worked example. All others are recognised by the key alone.
WAYS = {
    "never": "oban river-unique",
    "tables": "rails-switchman que que-go commanded-eventstore zitadel prefect pg_dbms_lock",
    "names": """
        coder didww-pg_advisory_lock django-pglock django-pglocks dotnet-distributedlock ecto-migrations
        good_job heroku-pg_lock lago laravel-advisory-lock message-db npm-advisory-lock npm-pg-advisory-lock
        pals pg_advisory_locking pgmq py-postgresql-lock sqlalchemy-dlock sqlx-pgadvisorylock symfony-lock
        with_advisory_lock
    """,
    "a guess": """
        concourse crc32-migrations grafana-migrations marten netbox postgres-migrations sequin unleash
    """,
    "a guess with evidence": """
        airflow authentik dbos evolve graph-node immich lemmy mage-ai n8n pulp spicedb terraform-pg-backend
    """,
}
EXPECTED = {name: way for way, names in WAYS.items() for name in names.split()}


def how(software: Software, example: Example) -> str:
    """Return how a worked example is recognised; asserts what belongs to it."""
    key = key_written(example.key)
    database = Database(5, example.database) if example.database else APP
    bare, with_evidence = known(key, database), known(key, database, traces_of(software, database))
    if example.name is not None:
        assert software.scheme is not None
        assert key_of(example.name, software.scheme) == key
        names = Polls(Learner()).poll({1: holder(key, query=f"SELECT 1 /* {example.name} */")})
        name = names[key]
        assert name is not None
        assert name.text == example.name
        return "names"
    if example.row is not None or with_evidence is None:
        assert any(lock.rows or lock.texts for lock in software.locks) or software.never
        assert bare is None
        return "never" if software.never else "tables"
    assert software.product in (with_evidence.product or "")
    if bare is None:
        assert with_evidence.maybe
        words = [item for item in software.evidence if "application " in item]
        for word in words:
            assert known(key, database, None, f"The {str(word)[12:].title()} 2") == with_evidence
        return "a guess with evidence"
    assert (bare.maybe, with_evidence.maybe) in ((True, False), (False, False), (True, True))
    return "a guess" if bare.maybe else "sure"


@pytest.mark.parametrize("software", SOFTWARE.values(), ids=SOFTWARE.keys())
def test_each_product_is_recognised_by_its_worked_examples(software: Software) -> None:
    ways = [how(software, example) for example in software.examples]
    assert ways[0] == EXPECTED.get(software.id, "sure")


def test_the_catalogue_is_whole() -> None:
    assert len(SOFTWARE) == len(catalogue()) >= 93
    assert EXPECTED.keys() <= SOFTWARE.keys()


def test_keys_with_rows_are_those_that_the_product_hashes() -> None:
    (marten,) = [claim for claim in claims() if claim.lock.texts]
    (example,) = [example for example in marten.software.examples if example.row]
    assert marten.hashed("", example.schema or "", example.row or "") == key_written(example.key)


KINDS = ("key", "first", "between", "objsubid", "text", "rows", "invert")


@pytest.mark.parametrize("claim", claims(), ids=lambda claim: f"{claim.software.id}: {claim.lock.name}")
def test_each_lock_says_one_thing(claim: Claim) -> None:
    lock, software = claim.lock, claim.software
    kinds = {kind for kind in KINDS if getattr(lock, kind) is not None}
    assert len(kinds) == 1 or kinds in ({"first", "rows"}, {"objsubid", "rows"})
    assert bool(lock.name) != bool(lock.invert)
    assert set(re.findall(r"(?<= )\{(\w+)\}", lock.name)) == set(re.findall(r"[{}](\w+)[{}]", lock.name))
    assert {lock.scheme or software.scheme or "int", lock.invert or "int"} <= SCHEMES.keys()
    assert lock.text is None or lock.scheme or software.scheme
    assert not (lock.rows or lock.texts) or "%" not in f"{lock.rows} {lock.texts}"  # psycopg's placeholder
    assert ("{table}" in f"{lock.rows} {lock.texts}" or "{oid}" in f"{lock.rows}") == bool(lock.table)
    assert_what_needs_evidence_has_some(claim, lock)


def assert_what_needs_evidence_has_some(claim: Claim, lock: KnownLock) -> None:
    if claim.confidence != "high" and not (lock.rows or lock.texts or lock.invert):
        assert claim.software.evidence


def test_every_field_that_a_lock_overrides_differs_from_its_products() -> None:
    for claim in claims():
        fields = asdict(claim.lock)
        for field in ("scope", "long_lived", "confidence", "scheme"):
            assert fields[field] is None or fields[field] != getattr(claim.software, field), claim.lock.name


def test_every_trace_can_be_looked_for() -> None:
    parsed = [parse_trace(trace) for trace in traces()]
    assert {trace.kind for trace in parsed} == {"table", "schema", "extension", "application"}
    assert all(trace.name == trace.name.lower() for trace in parsed)
    with pytest.raises(ValueError, match="no trace: tabel x"):
        parse_trace("tabel x")
