"""What the program works with, whatever files and flags it came from."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from pglock_inspect.config.address import Address
from pglock_inspect.errors import ConfigError
from pglock_inspect.model import Job, Limits, RuleSettings
from pglock_inspect.schemes import key_of


class Target(Struct, frozen=True):
    """A cluster with a name of its own. ``dsn`` is as written: `resolve_dsn` fills in its variables."""

    name: str
    dsn: str


class Serving(Struct, frozen=True):
    """How the exporter is reached. ``users`` are bcrypt hashes of passwords by name; without any, all may."""

    listen: Address = Address("127.0.0.1", 10187)
    tls_cert: Path | None = None
    tls_key: Path | None = None
    users: Mapping[str, str] = {}
    expose_queries: bool = False


class Settings(Struct, frozen=True):
    """All that can be configured; durations are seconds.

    ``limits`` apply to keys that no job claims, ``scheme`` to jobs made on the command line. Where two jobs
    claim a key, the first one names it. ``sources`` are the files that were read.
    """

    jobs: tuple[Job, ...] = ()
    limits: Limits = Limits()
    scheme: str = "hashtext"
    interval: float = 2.0
    names_query: str | None = None
    read_tables: bool = False
    rules: Mapping[str, RuleSettings] = {}
    targets: tuple[Target, ...] = ()
    serve: Serving = Serving()
    sources: tuple[Path, ...] = ()

    def with_limits(
        self, *, jobs: Collection[str] = (), max_held: float | None = None, max_wait: float | None = None
    ) -> Settings:
        """Return these settings under the limits of a command line: for the named jobs, or for everything.

        A name that no job has becomes a job under the default scheme. Raises `ConfigError` for an empty
        name and `UnhashableName` for one that the scheme has no key for.
        """
        given = {
            limit: seconds
            for limit, seconds in (("max_held", max_held), ("max_wait", max_wait))
            if seconds is not None
        }
        known = {job.name for job in self.jobs}
        created = tuple(self._new_job(name) for name in dict.fromkeys(jobs) if name not in known)
        return replace(
            self,
            limits=self.limits if jobs else replace(self.limits, **given),
            jobs=tuple(
                replace(job, limits=replace(job.limits, **given)) if not jobs or job.name in jobs else job
                for job in self.jobs + created
            ),
        )

    def _new_job(self, name: str) -> Job:
        if not name:
            raise ConfigError(
                "a job's name must not be empty: give --job the name that the lock is made from"
            )
        key_of(name, self.scheme)
        return Job(name, scheme=self.scheme, limits=self.limits)
