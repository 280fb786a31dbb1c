"""The jobs of one file."""

from __future__ import annotations

from reprlib import repr as shortened
from typing import TYPE_CHECKING, Any

from msgspec.structs import asdict

from pglock_inspect.config.tables import Defaults, JobTable, limits_over, plain, read_table
from pglock_inspect.errors import InvalidKey, UnhashableName
from pglock_inspect.keys import AdvisoryKey
from pglock_inspect.model import Job, Limits
from pglock_inspect.schemes import key_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pglock_inspect.config.problems import Place

_EXCLUSIVE = (
    ("key", "match", "each says by itself which locks are the job's"),
    ("key", "scheme", "a scheme makes keys of names, and this job has its key"),
    ("match", "scheme", "a learned name is tried under every scheme"),
    ("long_lived", "max_held", "what is held for life is never stale"),
)


def read_jobs(tables: list[Any], file: Place, defaults: Defaults) -> tuple[Job, ...]:
    """Return the jobs in ``[[jobs]]``. Raises `ConfigError`, for two jobs with one name or key too."""
    jobs = []
    for index, written in enumerate(tables):
        place = file.inside(f"jobs[{index}]", _whose(written))
        jobs.append((place, _read_job(written, place, defaults)))
    _refuse_twins(jobs)
    return tuple(job for _, job in jobs)


def _whose(written: object) -> str:
    name = written.get("name") if isinstance(written, dict) else None
    return f"job {shortened(name)}" if name and isinstance(name, str) else ""


def _read_job(written: object, place: Place, defaults: Defaults) -> Job:
    table = read_table(written, JobTable, place)
    given = {key for key, value in asdict(table).items() if value is not None and value is not False}
    for one, other, why in _EXCLUSIVE:
        if {one, other} <= given:
            raise place.problem(f"{one} and {other} exclude each other, since {why}: remove one of them")
    key, first = _read_key(table.key, place)
    return Job(
        name=table.name,
        key=key,
        first=first,
        match=table.match,
        scheme=str(table.scheme or defaults.scheme or "hashtext"),
        database=table.database,
        limits=limits_over(limits_over(Limits(), defaults), table),
        every=plain(table.every),
        scope=table.scope,
        heartbeat=plain(table.heartbeat),
        min_held=plain(table.min_held),
        long_lived=table.long_lived,
    )


def _read_key(
    written: int | str | list[int | str] | None, place: Place
) -> tuple[AdvisoryKey | None, int | None]:
    """Return the one key that is written, or the first half that all of a namespace share."""
    try:
        match written:
            case None:
                return None, None
            case int():
                return AdvisoryKey.from_bigint(written), None
            case str():
                return AdvisoryKey.parse(written), None
            case [int() as first, int() as second]:
                return AdvisoryKey.from_pair(first, second), None
            case [int() as first, "*"]:
                AdvisoryKey.from_pair(first, 0)
                return None, first
    except InvalidKey as error:
        hint = "" if isinstance(written, str) else '; write "classid/objid/objsubid" for what pg_locks shows'
        raise place.problem(f"{error}{hint}", key="key") from None
    except ValueError:  # Python prints and reads no number of thousands of digits
        raise place.problem("is a number too long to be a key", key="key") from None
    raise place.problem(
        'must be a bigint, a pair of int4, or [FIRST, "*"] for all pairs with that half', key="key"
    )


def _refuse_twins(jobs: list[tuple[Place, Job]]) -> None:
    """Two jobs of one file must differ in name and in key, unless each names another database."""
    seen: dict[object, Place] = {}
    for place, job in jobs:
        for what, value in _claims(job, place):
            other = seen.setdefault((what, value, job.database), place)
            if other is not place:
                twin = f"{other.at} ({other.whose})"
                raise place.problem(
                    f"has the same {what} as {twin}: remove one, or give each its own database"
                )


def _claims(job: Job, place: Place) -> Iterator[tuple[str, object]]:
    yield "name", job.name
    if job.match is not None:
        yield "match", job.match
    elif job.first is not None:
        yield "key", job.first
    else:
        yield "key", job.key or _hashed(job, place)


def _hashed(job: Job, place: Place) -> AdvisoryKey:
    try:
        return key_of(job.name, job.scheme)
    except UnhashableName as error:
        raise place.problem(f"{error}; set another scheme") from None
