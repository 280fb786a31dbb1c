from __future__ import annotations

import random
from collections.abc import Callable, Iterator

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st
from psycopg import sql

from pglock_inspect.errors import UnhashableName
from pglock_inspect.keys import AdvisoryKey
from pglock_inspect.schemes import SCHEMES, Scheme, codec_of, key_of
from pglock_inspect.schemes.postgres_hash import hashtext, hashtextextended
from tests.support.servers import Connect, Connection

EncodedDatabase = Callable[[str], Connection]

TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))
HASHED_BY_SERVER = [scheme for scheme in SCHEMES.values() if scheme.hashed_by_server]

# One session serves all examples: a query changes nothing there.
bulk = settings(
    max_examples=40,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


@pytest.fixture
def encoded_database(connect: Connect, janitor: Connection) -> Iterator[EncodedDatabase]:
    """Opens a session in a new database of the given encoding."""
    created: list[sql.Identifier] = []
    sessions: list[Connection] = []

    def create(encoding: str) -> Connection:
        name = f"pglock_{encoding.lower()}"
        janitor.execute(
            sql.SQL("CREATE DATABASE {} ENCODING {} LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0").format(
                sql.Identifier(name), encoding
            )
        )
        created.append(sql.Identifier(name))
        sessions.append(connect(dbname=name, client_encoding="UTF8"))
        return sessions[-1]

    yield create
    for session in sessions:
        session.close()
    for name in created:
        janitor.execute(sql.SQL("DROP DATABASE {}").format(name))


@pytest.fixture
def utf8(encoded_database: EncodedDatabase) -> Connection:
    """A session in a UTF-8 database."""
    return encoded_database("UTF8")


def assert_hashes_equal_the_servers(session: Connection, names: list[str], seed: int = 0) -> None:
    rows = session.execute(
        """SELECT hashtext(name), hashtextextended(name, 0), hashtextextended(name, %s)
           FROM unnest(%s::text[]) WITH ORDINALITY AS names (name, position) ORDER BY position""",
        [seed, names],
    ).fetchall()
    ours = [
        (hashtext(data), hashtextextended(data), hashtextextended(data, seed))
        for data in map(str.encode, names)
    ]
    assert ours == rows


@bulk
@given(names=st.lists(TEXT, min_size=20, max_size=200), seed=st.integers(-(1 << 63), (1 << 63) - 1))
def test_any_unicode_hashes_as_on_the_server(utf8: Connection, names: list[str], seed: int) -> None:
    assert_hashes_equal_the_servers(utf8, names, seed)


def test_every_length_hashes_as_on_the_server(utf8: Connection) -> None:
    chance = random.Random(1)
    alphabet = "abcXYZ_0189 -:/.%é☃🔒'\\"
    lengths = [*range(600), *range(9_990, 10_011)]
    for _ in range(4):
        assert_hashes_equal_the_servers(
            utf8, ["".join(chance.choices(alphabet, k=length)) for length in lengths]
        )


@pytest.mark.parametrize("scheme", HASHED_BY_SERVER, ids=lambda scheme: scheme.name)
@bulk
@given(names=st.lists(TEXT, min_size=20, max_size=40))
def test_the_server_makes_the_same_key_of_the_sql(utf8: Connection, scheme: Scheme, names: list[str]) -> None:
    if scheme.form == "pair":
        names = [f"{quoted(name)},{quoted(name[::-1])}" for name in names] + ["42,x", "x,-7"]
    query = " UNION ALL ".join(
        f"SELECT {position}, {scheme.sql_arguments(name)}" for position, name in enumerate(names)
    )
    rows = utf8.execute(f"{query} ORDER BY 1".encode()).fetchall()
    keys = [AdvisoryKey.from_value(row[1] if scheme.form == "bigint" else row[1:]) for row in rows]
    assert keys == [scheme.key(name) for name in names]


def quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


@pytest.mark.parametrize(
    ("server_encoding", "name", "refused"),
    [
        ("LATIN1", "café", "тест"),
        ("KOI8R", "тест", "café"),
        ("WIN1251", "тест", "café"),
        ("EUC_JP", "夜間バッチ", "🔒"),
        ("EUC_CN", "夜间报告", "🔒"),
        ("SQL_ASCII", "café", "\ud800"),
    ],
)
def test_a_name_is_hashed_in_the_encoding_of_the_database(
    encoded_database: EncodedDatabase, server_encoding: str, name: str, refused: str
) -> None:
    session = encoded_database(server_encoding)
    codec = codec_of(server_encoding)
    for scheme in HASHED_BY_SERVER:
        spelt = f"{name},{name}" if scheme.form == "pair" else name
        (*values,) = session.execute(f"SELECT {scheme.sql_arguments(spelt)}".encode()).fetchone() or ()
        key = AdvisoryKey.from_value(values[0] if scheme.form == "bigint" else (values[0], values[1]))
        assert scheme.key(spelt, encoding=codec) == key
        assert (key == scheme.key(spelt)) == (codec == "utf-8")
    with pytest.raises(UnhashableName):
        key_of(refused, encoding=codec)


def test_a_codec_writes_every_character_as_the_server_does(utf8: Connection) -> None:
    encodings = utf8.execute(
        """SELECT name FROM generate_series(0, 34) AS id, pg_encoding_to_char(id) AS name
           WHERE pg_encoding_max_length(id) = 1 AND name NOT IN ('SQL_ASCII', 'MULE_INTERNAL')"""
    ).fetchall()
    assert len(encodings) > 20
    for (name,) in encodings:
        codec = codec_of(name)
        assert codec != "ascii"
        data = bytes(range(1, 256)).decode(codec, errors="ignore").encode(codec)
        assert utf8.execute("SELECT convert_to(%s, %s)", [data.decode(codec), name]).fetchone() == (data,)
