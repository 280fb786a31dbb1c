"""What a file may hold: its tables, their keys and the form of each value."""

from __future__ import annotations

from math import inf
from reprlib import repr as shortened
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self, TypeVar

from msgspec import Meta, Struct, ValidationError, convert

from pglock_inspect.config.address import parse_address
from pglock_inspect.config.problems import Place, explain
from pglock_inspect.durations import format_duration, parse_duration
from pglock_inspect.model import Limits, Scope, Severity
from pglock_inspect.schemes import scheme_named

if TYPE_CHECKING:
    from collections.abc import Mapping

Text = Annotated[str, Meta(min_length=1)]


class Seconds(float):
    """A duration, which may be zero."""

    least = 0.0
    most = inf

    @classmethod
    def read(cls, value: object) -> Self:
        """Return the duration that is written. Raises ValueError."""
        if not isinstance(value, str):
            raise ValueError('must be a duration in quotes, like "10m"')  # noqa: TRY004 (msgspec adds the path)
        seconds = parse_duration(value)
        if seconds < cls.least:
            raise ValueError(f"{shortened(value)} is too short: write at least {format_duration(cls.least)}")
        if seconds > cls.most:
            raise ValueError(f"{shortened(value)} is too long: write at most {format_duration(cls.most)}")
        return cls(seconds)


class Period(Seconds):
    """A duration that is longer than nothing."""

    least = 0.001


class Interval(Seconds):
    """The time between two polls; a shorter one would cost the server more than it tells."""

    least = 0.1
    most = 86_400.0


class SchemeName(str):
    """The name of a scheme."""

    __slots__ = ()

    @classmethod
    def read(cls, value: object) -> Self:
        """Return the name that is written. Raises ValueError."""
        if not isinstance(value, str):
            raise ValueError('must be a scheme in quotes, like "hashtext"')  # noqa: TRY004
        return cls(scheme_named(value).name)


class Listen(str):
    """An address to listen on."""

    __slots__ = ()

    @classmethod
    def read(cls, value: object) -> Self:
        """Return the address that is written. Raises ValueError."""
        if not isinstance(value, str):
            raise ValueError('must be an address in quotes, like "127.0.0.1:10187"')  # noqa: TRY004
        parse_address(value)
        return cls(value)


class File(Struct, frozen=True, forbid_unknown_fields=True):
    """A whole file. Its tables are read one by one, so that a message can name the job or the rule."""

    defaults: dict[str, Any] = {}
    jobs: list[Any] = []
    rules: dict[str, Any] = {}
    targets: list[Any] = []
    serve: dict[str, Any] = {}


class Defaults(Struct, frozen=True, forbid_unknown_fields=True):
    """``[defaults]``."""

    max_held: Seconds | None = None
    max_wait: Seconds | None = None
    scheme: SchemeName | None = None
    interval: Interval | None = None
    names_query: Text | None = None
    read_tables: bool | None = None


class JobTable(Struct, frozen=True, forbid_unknown_fields=True):
    """One of ``[[jobs]]``."""

    name: Text
    key: int | str | list[int | str] | None = None
    match: Text | None = None
    scheme: SchemeName | None = None
    database: Text | None = None
    max_held: Seconds | None = None
    max_wait: Seconds | None = None
    every: Period | None = None
    scope: Scope | None = None
    heartbeat: Period | None = None
    min_held: Period | None = None
    long_lived: bool = False


class RuleTable(Struct, frozen=True, forbid_unknown_fields=True):
    """``[rules.NAME]``."""

    severity: Severity | Literal["off"] | None = None
    threshold: int | float | str | None = None


class TargetTable(Struct, frozen=True, forbid_unknown_fields=True):
    """One of ``[[targets]]``."""

    name: Text
    dsn: Text


class ServeTable(Struct, frozen=True, forbid_unknown_fields=True):
    """``[serve]``."""

    listen: Listen | None = None
    tls_cert: Text | None = None
    tls_key: Text | None = None
    users: dict[str, Any] = {}
    expose_queries: bool = False


TABLES: Mapping[str, type[Struct]] = {
    "[defaults]": Defaults,
    "[[jobs]]": JobTable,
    "[rules.NAME]": RuleTable,
    "[[targets]]": TargetTable,
    "[serve]": ServeTable,
}
"""The tables of a file by their headings."""

Table = TypeVar("Table", bound=Struct)


def read_table(value: object, shape: type[Table], place: Place) -> Table:
    """Return what stands in a place, in the shape that it must have. Raises `ConfigError`."""
    try:
        return convert(value, shape, dec_hook=lambda kind, written: kind.read(written))
    except ValidationError as error:
        key, sentence = explain(error, shape, TABLES)
        raise place.problem(sentence, key=key) from None


def plain(seconds: Seconds | None) -> float | None:
    """Return a duration as the model has it: msgspec writes no subclass of float."""
    return None if seconds is None else float(seconds)


def limits_over(base: Limits, table: Defaults | JobTable) -> Limits:
    """Return limits with those that a table sets."""
    return Limits(
        max_held=base.max_held if table.max_held is None else float(table.max_held),
        max_wait=base.max_wait if table.max_wait is None else float(table.max_wait),
    )
