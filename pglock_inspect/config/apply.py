"""One file's word, put over what was said before it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from pglock_inspect.config.address import parse_address
from pglock_inspect.config.jobs import read_jobs
from pglock_inspect.config.rules import read_rules
from pglock_inspect.config.settings import Serving, Settings, Target
from pglock_inspect.config.tables import Defaults, File, ServeTable, TargetTable, limits_over, read_table
from pglock_inspect.model import RuleSettings

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pglock_inspect.config.files import Source
    from pglock_inspect.config.problems import Place
    from pglock_inspect.model import Job

_BCRYPT = re.compile(r"\$2[aby]\$(?:0[4-9]|[12]\d|3[01])\$[./A-Za-z0-9]{53}")


def apply(source: Source, settings: Settings) -> Settings:
    """Return settings with what a file says; where both say something, the file's word counts.

    A file's defaults are for its own jobs, and for keys that no job claims. Raises `ConfigError`.
    """
    file = read_table(source.table, File, source.place)
    defaults = read_table(file.defaults, Defaults, source.place.inside("defaults"))
    if not source.trusted:
        _refuse_what_needs_trust(source, file, defaults)
    jobs = read_jobs(file.jobs, source.place, defaults)
    return Settings(
        jobs=_before(jobs, settings.jobs),
        limits=limits_over(settings.limits, defaults),
        scheme=str(defaults.scheme or settings.scheme),
        interval=float(defaults.interval or settings.interval),
        names_query=defaults.names_query or settings.names_query,
        read_tables=settings.read_tables if defaults.read_tables is None else defaults.read_tables,
        rules=_rules_over(settings.rules, read_rules(file.rules, source.place)),
        targets=_read_targets(file.targets, source.place) + settings.targets,
        serve=_read_serving(file.serve, source.place.inside("serve")) if file.serve else settings.serve,
        sources=(source.place.file, *settings.sources),
    )


def _refuse_what_needs_trust(source: Source, file: File, defaults: Defaults) -> None:
    """Raise for what would connect, query or read a secret: the file may lie in anybody's checkout."""
    refused = [("targets", "a dsn")] if file.targets else []
    refused += [("serve", "what opens a port")] if file.serve else []
    refused += [
        (f"defaults.{key}", key)
        for key in ("names_query", "read_tables")
        if getattr(defaults, key) is not None
    ]
    refused += [(at, "${NAME}") for at, text in _texts(source.table) if "${" in text]
    for key, what in refused:
        raise source.place.problem(
            f"{what} is refused in a file that was merely found in the current directory:"
            " move it to a file of your own, or name this one with --config",
            key=key,
        )


def _texts(value: object, at: str = "") -> Iterator[tuple[str, str]]:
    """Yield every string in a TOML value, with the path to it."""
    if isinstance(value, str):
        yield at, value
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield from _texts(inner, f"{at}.{key}" if at else key)
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from _texts(inner, f"{at}[{index}]")


def _before(first: tuple[Job, ...], then: tuple[Job, ...]) -> tuple[Job, ...]:
    """Join jobs, the first of each name; those of one database come first, since they fit a key closer."""
    taken = {(job.name, job.database) for job in first}
    jobs = (*first, *(job for job in then if (job.name, job.database) not in taken))
    return tuple(sorted(jobs, key=lambda job: job.database is None))


def _rules_over(
    base: Mapping[str, RuleSettings], rules: Mapping[str, RuleSettings]
) -> Mapping[str, RuleSettings]:
    return {
        **base,
        **{name: _rule_over(base.get(name, RuleSettings()), rule) for name, rule in rules.items()},
    }


def _rule_over(base: RuleSettings, rule: RuleSettings) -> RuleSettings:
    return RuleSettings(
        severity=rule.severity or base.severity,
        threshold=base.threshold if rule.threshold is None else rule.threshold,
    )


def _read_targets(tables: list[Any], file: Place) -> tuple[Target, ...]:
    targets: dict[str, Target] = {}
    for index, written in enumerate(tables):
        place = file.inside(f"targets[{index}]")
        table = read_table(written, TargetTable, place)
        if table.name == "all":
            raise place.problem("'all' means every target already: choose another name", key="name")
        if table.name in targets:
            raise place.problem(f"there is a target {table.name!r} already: rename one", key="name")
        targets[table.name] = Target(table.name, table.dsn)
    return tuple(targets.values())


def _read_serving(written: Any, place: Place) -> Serving:  # noqa: ANN401 - TOML
    table = read_table(written, ServeTable, place)
    if table.tls_key and not table.tls_cert:
        raise place.problem("is the key of no certificate: add tls_cert", key="tls_key")
    beside = place.file.parent
    return Serving(
        listen=parse_address(table.listen) if table.listen else Serving().listen,
        tls_cert=beside / table.tls_cert if table.tls_cert else None,
        tls_key=beside / table.tls_key if table.tls_key else None,
        users=_read_users(table.users, place.inside("users")),
        expose_queries=table.expose_queries,
    )


def _read_users(written: dict[str, Any], place: Place) -> dict[str, str]:
    """Return the hashes of passwords by name. No message quotes one: it may be a password."""
    for name, hashed in written.items():
        if not name or ":" in name:
            raise place.problem(
                f"{name!r} is no name of a user: write one that is not empty and has no colon"
            )
        if not isinstance(hashed, str) or not _BCRYPT.fullmatch(hashed):
            raise place.problem(
                "must be a bcrypt hash: write what htpasswd -nB NAME prints after the colon", key=name
            )
    return written
