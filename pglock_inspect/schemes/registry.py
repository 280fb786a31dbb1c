"""All schemes, one entry each."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING
from zlib import crc32

from pglock_inspect.errors import UnknownScheme
from pglock_inspect.schemes import digests, erlang, pairs, postgres_hash, strings
from pglock_inspect.schemes.scheme import Scheme

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pglock_inspect.keys import AdvisoryKey


def key_of(name: str, scheme: str = "hashtext", *, encoding: str = "utf-8") -> AdvisoryKey:
    """Return the key that ``scheme`` makes of ``name``.

    ``encoding`` is the database's, as a Python codec; only schemes that the server hashes depend on it.
    Raises `UnknownScheme` and `UnhashableName`.
    """
    return scheme_named(scheme).key(name, encoding=encoding)


def scheme_named(name: str) -> Scheme:
    """Return a scheme, or raise `UnknownScheme` with those whose names come near."""
    try:
        return SCHEMES[name]
    except KeyError:
        raise UnknownScheme(_unknown(name)) from None


def _unknown(name: str) -> str:
    from difflib import get_close_matches  # noqa: PLC0415  (7 ms, for a mistake only)
    from reprlib import repr as shortened  # noqa: PLC0415

    near = get_close_matches(name.lower(), SCHEMES, n=3)
    if near:
        return f"there is no scheme {shortened(name)}: did you mean {' or '.join(near)}?"
    return f"there is no scheme {shortened(name)}: choose one of {', '.join(SCHEMES)}"


def _sql(template: str) -> Callable[[str], str]:
    return lambda name: template.format(_literal(name))


def _pair_sql(name: str) -> str:
    return ", ".join(
        str(half) if isinstance(half, int) else f"hashtext({_literal(half.decode())})"
        for half in pairs.halves(name.encode())
    )


def _literal(text: str) -> str:
    quoted = "'" + text.replace("'", "''") + "'"
    return "E" + quoted.replace("\\", "\\\\") if "\\" in text else quoted


SCHEMES: Mapping[str, Scheme] = MappingProxyType(
    {
        scheme.name: scheme
        for scheme in (
            Scheme(
                "hashtext",
                "hashtext(name), an int4",
                postgres_hash.hashtext,
                used_by=(
                    "most hand-written SQL",
                    "pg_partman",
                    "pgmq",
                    "WAL-G",
                    "Electric",
                    "Supabase Auth",
                    "PgQueuer",
                    "Lago",
                    "mpyw's lock for Laravel",
                ),
                encoding=None,
                sql=_sql("hashtext({})"),
            ),
            Scheme(
                "hashtext-pair",
                "FIRST,SECOND: hashtext of each half, but an integer stands for itself",
                pairs.hashtext_pair,
                used_by=("pg_partman's procedures", "Pulp", "ZITADEL", "didww pg_advisory_lock"),
                form="pair",
                encoding=None,
                sql=_pair_sql,
                example="nightly_report,b",
            ),
            Scheme(
                "hashtextextended",
                "hashtextextended(name, 0)",
                postgres_hash.hashtextextended,
                used_by=("pg-advisory-lock (npm) 2", "Supabase Storage's migrations", "hand-written SQL"),
                encoding=None,
                sql=_sql("hashtextextended({}, 0)"),
            ),
            Scheme(
                "md5-64-be",
                "first 64 bits of MD5, big-endian",
                digests.leading("md5", "big"),
                used_by=("GoodJob", "Message DB", "pg-boss 7 to 9"),
                encoding=None,
                sql=_sql("('x' || substr(md5({}), 1, 16))::bit(64)::bigint"),
            ),
            Scheme(
                "md5-60",
                "first 60 bits of MD5, never negative",
                digests.md5_60,
                used_by=("hand-written SQL",),
                encoding=None,
                sql=_sql("('x' || substr(md5({}), 1, 15))::bit(60)::bigint"),
            ),
            Scheme(
                "md5-32",
                "first 32 bits of MD5, an int4",
                digests.leading("md5", "big", size=4),
                used_by=("hand-written SQL",),
                encoding=None,
                sql=_sql("('x' || substr(md5({}), 1, 8))::bit(32)::int"),
            ),
            Scheme(
                "sha224-64-be",
                "first 64 bits of SHA-224, big-endian",
                digests.leading("sha224", "big"),
                used_by=("pg-boss 10 and newer",),
                encoding=None,
                sql=_sql(
                    "('x' || substr(encode(sha224(convert_to({}, getdatabaseencoding())), 'hex'), 1, 16))"
                    "::bit(64)::bigint"
                ),
            ),
            Scheme(
                "sha256-64-le",
                "first 64 bits of SHA-256, little-endian",
                digests.leading("sha256", "little"),
                used_by=("django-pglock",),
            ),
            Scheme(
                "sha256-64-be",
                "first 64 bits of SHA-256, big-endian",
                digests.leading("sha256", "big"),
                used_by=("GoodJob with hash_function sha256", "hand-written Python, Go and Elixir"),
            ),
            Scheme(
                "sha256-2x32-le",
                "first two 32-bit words of SHA-256, little-endian",
                digests.sha256_pair,
                used_by=("advisory-lock (npm)",),
                form="pair",
            ),
            Scheme(
                "sha1-64-le",
                "first 64 bits of SHA-1, little-endian",
                digests.leading("sha1", "little"),
                used_by=("PALs", "DistributedLock (.NET) for long names"),
            ),
            Scheme(
                "sha1-64-be",
                "first 64 bits of SHA-1, big-endian",
                digests.leading("sha1", "big"),
                used_by=("py-postgresql-lock",),
            ),
            Scheme(
                "sha1-64-offset",
                "first 64 bits of SHA-1, big-endian, unsigned, less 2^63",
                digests.sha1_offset,
                used_by=("pg_advisory_locking (gem)",),
            ),
            Scheme(
                "blake2b-64-le",
                "BLAKE2b of 8 bytes, little-endian",
                digests.blake2b,
                used_by=("sqlalchemy-dlock",),
            ),
            Scheme(
                "crc32-unsigned",
                "CRC-32, never negative",
                crc32,
                used_by=("Symfony Lock", "goose", "Clair", "pgmigrate"),
            ),
            Scheme(
                "crc32-signed",
                "CRC-32, an int4",
                digests.crc32_signed,
                used_by=("django-pglocks", "AWX"),
            ),
            Scheme(
                "with_advisory_lock",
                "CRC-32 without its highest bit, and 0",
                digests.with_advisory_lock,
                used_by=("with_advisory_lock (gem)", "closure_tree (gem)"),
                form="pair",
            ),
            Scheme(
                "pg_lock",
                "-2147483648, and CRC-32",
                digests.pg_lock,
                used_by=("pg_lock (gem of Heroku)",),
                form="pair",
            ),
            Scheme(
                "fnv1-32",
                "FNV-1, 32 bits, never negative",
                strings.fnv1_32,
                used_by=("Atlas", "OpenTofu (negated)"),
            ),
            Scheme("fnv1-64", "FNV-1, 64 bits", strings.fnv1_64, used_by=("Coder", "River before 0.13")),
            Scheme("fnv1a-64", "FNV-1a, 64 bits", strings.fnv1a_64, used_by=("Hatchet", "Clair's ctxlock")),
            Scheme(
                "java-hashcode",
                "Java's String.hashCode(), an int4",
                strings.java_hashcode,
                used_by=("Flyway (added to a constant)", "liquibase-sessionlock", "Nango"),
                encoding="utf-16-le",
            ),
            Scheme(
                "jasperfx-hash",
                "JasperFx's GetDeterministicHashCode(), an int4",
                strings.jasperfx,
                used_by=("Wolverine", "Marten's daemon"),
                encoding="utf-16-le",
            ),
            Scheme(
                "djb2-xor",
                "djb2 with XOR, 32 bits, never negative",
                strings.djb2_xor,
                used_by=("Supabase Storage",),
                encoding="utf-16-le",
            ),
            Scheme(
                "djb2-xor-infisical",
                "djb2 with XOR from 0, 31 bits",
                strings.infisical,
                used_by=("Infisical",),
            ),
            Scheme(
                "sqlx-hkdf",
                "HKDF-SHA256, 8 bytes, little-endian",
                digests.sqlx_hkdf,
                used_by=("SQLx's PgAdvisoryLock",),
            ),
            Scheme(
                "dotnet-ascii",
                "up to 9 ASCII characters, packed; reversible",
                strings.pack_ascii,
                used_by=("DistributedLock (.NET) for short names",),
                form="pair",
                encoding="ascii",
                invert=strings.unpack_ascii,
                example="nightly",
            ),
            Scheme(
                "erlang-phash2",
                "erlang:phash2(term), 27 bits",
                erlang.phash2,
                used_by=("Ecto's migrations",),
                example="{ecto,nil,MyApp.Repo}",
            ),
            Scheme(
                "int",
                "the integer itself; reversible",
                strings.integer,
                used_by=("go-pglock", "asyncpg-lock", "Sequel's with_advisory_lock", "most constants"),
                encoding="ascii",
                invert=strings.integer_name,
                example="42",
            ),
        )
    }
)
