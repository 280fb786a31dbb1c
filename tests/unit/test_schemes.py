from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from pglock_inspect.errors import UnhashableName, UnknownScheme
from pglock_inspect.keys import AdvisoryKey, Value
from pglock_inspect.schemes import SCHEMES, Scheme, codec_of, key_of, pair_name
from pglock_inspect.schemes.pairs import halves
from pglock_inspect.schemes.postgres_hash import hashtext, hashtextextended

# What PostgreSQL, Erlang/OTP 25, a JVM, Node and the products themselves made of these names.
VECTORS: list[tuple[str, str, Value]] = [
    ("hashtext", "nightly_report", 1593351040),
    ("hashtext", "send_daily_digest", -1957215242),
    ("hashtext", "pg_partman run_maintenance procedure", -1853951700),
    ("hashtext", "pgmq.queue_orders", 20675298),
    ("hashtext", "electric_slot_default", -1768572819),
    ("hashtext", "pg_backup", -1010065801),
    ("hashtext", "", -1477818771),
    ("hashtext-pair", "nightly_report,b", (1593351040, -68821088)),
    ("hashtext-pair", "4711,/api/v3/repositories/1/", (4711, -1897755474)),
    ("hashtext-pair", "1000, acc-1", (1000, -1965675292)),
    ("hashtext-pair", "16394,'288000000000000001'", (16394, 2965464)),
    ("hashtext-pair", "send_daily_digest,-7", (-1957215242, -7)),
    ("hashtextextended", "nightly_report", 698591614997142400),
    ("md5-64-be", "nightly_report", -17531942199741485),
    ("md5-64-be", "good_jobs-0b9f7a64-0e6f-4d5c-9a5b-3a2f4f6b7c11", 2244772959704536853),
    ("md5-64-be", "account", -2132379389342958165),
    ("md5-60", "nightly_report", 1151825758219363133),
    ("md5-32", "nightly_report", -4081974),
    ("sha224-64-be", "nightly_report", -270403830625190203),
    ("sha224-64-be", "appdb.pgboss.pgboss", 7601835560661476500),
    ("sha256-64-le", "nightly_report", 1206044372468182626),
    ("sha256-64-be", "nightly_report", 7074683895202626576),
    ("sha256-2x32-le", "nightly_report", (-2074923422, 280804087)),
    ("sha1-64-le", "nightly_report", -821034287718207438),
    ("sha1-64-le", "nightly-report-lock", -5073157107690792576),
    ("sha1-64-le", "myapp.nightly_report", 5626395878538365883),
    ("sha1-64-be", "nightly_report", 3670472542844984308),
    ("sha1-64-offset", "nightly_report", -5552899494009791500),
    ("blake2b-64-le", "nightly_report", 7223383424668238310),
    ("crc32-unsigned", "nightly_report", 4292613042),
    ("crc32-unsigned", "goose", 4097083626),
    ("crc32-unsigned", "sessionlock-pgmigrate--public.pgmigrate_migrations", 3175788019),
    ("crc32-signed", "nightly_report", -2354254),
    ("crc32-signed", "task_manager_lock", 1226251610),
    ("with_advisory_lock", "nightly_report", (2145129394, 0)),
    ("pg_lock", "nightly_report", (-2147483648, -2354254)),
    ("fnv1-32", "nightly_report", 549521673),
    ("fnv1-32", "atlas_migrate_execute", 2686470616),
    ("fnv1-32", "terraform_remote_state\0states", 3797183428),
    ("fnv1-64", "nightly_report", 4111767160662283049),
    ("fnv1-64", "lifecycle-executor:11111111-2222-3333-4444-555555555555", -7664618976241902753),
    ("fnv1a-64", "nightly_report", 2523197828373494833),
    ("fnv1a-64", "analyze-olap-tables", 5705964304097144966),
    ("fnv1a-64", "garbage-collection", -5176715297593093589),
    ("java-hashcode", "nightly_report", 935138062),
    ("java-hashcode", "databasechangeloglock", -1497367772),
    ("java-hashcode", "", 0),
    ("java-hashcode", "café", 3045921),
    ("java-hashcode", "lock 🔒", 340405130),
    ("jasperfx-hash", "nightly_report", 1701222206),
    ("jasperfx-hash", "wolverine", 832201495),
    ("jasperfx-hash", "wolverine:scheduled-jobs", -34011047),
    ("jasperfx-hash", "public", -956706791),
    ("jasperfx-hash", "public:Orders:All", -2022720547),
    ("djb2-xor", "nightly_report", 2312926525),
    ("djb2-xor", "event:upgrade-lock", 2726110501),
    ("djb2-xor", "lock 🔒", 3985202305),
    ("djb2-xor-infisical", "nightly_report", 53451320),
    ("djb2-xor-infisical", "instance-relay-config-init", 330167959),
    ("djb2-xor-infisical", "тест", 559659029),
    ("sqlx-hkdf", "nightly_report", 5697721437430784684),
    ("sqlx-hkdf", "my first Postgres advisory lock!", -5560419505042474287),
    ("dotnet-ascii", "nightly", (-576242034, -1690517505)),
    ("dotnet-ascii", "jobs", (-708896969, -1)),
    ("dotnet-ascii", "", (2147483647, -1)),
    ("erlang-phash2", "{ecto,nil,MyApp.Repo}", 41811489),
    ("erlang-phash2", "{:ecto, nil, Elixir.MyApp.Repo}", 41811489),
    ("erlang-phash2", '{ecto,"public",MyApp.Repo}', 106407190),
    ("erlang-phash2", '{ecto,<<"tenant_12345">>,Sequin.Repo}', 58669952),
    (
        "erlang-phash2",
        '{ecto,"a_schema_name_longer_than_24_bytes",Very.Long.Module.Name.Of.A.Repo}',
        77198966,
    ),
    ("erlang-phash2", "{ecto,<<>>,'Elixir.A'}", 112410867),
    ("erlang-phash2", '"public"', 46515530),
    ("erlang-phash2", "ecto", 441007),
    ("erlang-phash2", "''", 0),
    ("erlang-phash2", "{}", 87486268),
    ("erlang-phash2", "<<>>", 13708901),
    ("erlang-phash2", '{"twelve_bytes",a}', 30773206),
    ("erlang-phash2", '{"a_schema_of_23_bytes___"}', 38382019),
    ("erlang-phash2", '{café,"café"}', 25650890),
    ("erlang-phash2", "тест", 130192130),
    ("int", "42", 42),
    ("int", "-1", -1),
    ("int", "9223372036854775807", 9223372036854775807),
]

SCHEME = st.sampled_from(list(SCHEMES.values()))
INT4 = st.integers(-(1 << 31), (1 << 31) - 1)
PRINTABLE_ASCII = st.text(st.characters(min_codepoint=32, max_codepoint=126), min_size=1, max_size=9)


@pytest.mark.parametrize(("scheme", "name", "value"), VECTORS)
def test_a_scheme_makes_the_key_that_its_software_makes(scheme: str, name: str, value: Value) -> None:
    key = key_of(name, scheme)
    assert key.value == value
    assert key.form == SCHEMES[scheme].form


def test_every_scheme_has_a_vector_for_the_example_that_it_is_documented_with() -> None:
    assert {(name, scheme.example) for name, scheme in SCHEMES.items()} <= {vector[:2] for vector in VECTORS}
    assert len(SCHEMES) == 29


def test_hashtext_is_the_scheme_unless_another_is_asked_for() -> None:
    assert key_of("send_daily_digest") == AdvisoryKey(4294967295, 2337752054, 1)


def test_the_documentation_lists_every_scheme() -> None:
    page = (Path(__file__).parents[2] / "docs" / "schemes.md").read_text()
    table = page.partition("|---|---|---|---|---|---|\n")[2].partition("\n\n")[0]
    assert table.splitlines() == [documented(scheme) for scheme in SCHEMES.values()]


def documented(scheme: Scheme) -> str:
    hashed = {None: "database", "utf-8": "UTF-8", "utf-16-le": "UTF-16", "ascii": "ASCII"}[scheme.encoding]
    key = scheme.key(scheme.example)
    cells = (
        f"`{scheme.name}`",
        scheme.rule,
        scheme.form,
        hashed,
        ", ".join(scheme.used_by),
        f"`{scheme.example}` → `{key}`",
    )
    return f"| {' | '.join(cells)} |"


@given(SCHEME, st.text())
def test_a_name_has_a_key_or_is_refused(scheme: Scheme, name: str) -> None:
    try:
        key = scheme.key(name)
    except UnhashableName:
        return
    assert key.form == scheme.form
    assert AdvisoryKey.from_pg_locks(*key) == key


@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")))
def test_the_lower_half_of_hashtextextended_is_hashtext(name: str) -> None:
    data = name.encode()
    assert (hashtextextended(data) ^ hashtext(data)) & 0xFFFFFFFF == 0


@pytest.mark.parametrize("scheme", SCHEMES.values(), ids=SCHEMES)
def test_only_a_scheme_that_the_server_hashes_depends_on_the_encoding_and_has_sql(scheme: Scheme) -> None:
    name = "café,x" if scheme.form == "pair" else "café"
    if scheme.encoding == "ascii" or scheme.name == "erlang-phash2":
        name = scheme.example
    depends = scheme.key(name, encoding="latin-1") != scheme.key(name, encoding="utf-8")
    assert depends == scheme.hashed_by_server == (scheme.sql is not None)
    assert (scheme.sql_arguments(name) is not None) == scheme.hashed_by_server


@pytest.mark.parametrize(
    ("scheme", "name", "sql"),
    [
        ("hashtext", "send_daily_digest", "hashtext('send_daily_digest')"),
        ("hashtext", "it's", "hashtext('it''s')"),
        ("hashtext", r"a\b'c", r"hashtext(E'a\\b''c')"),
        ("hashtextextended", "{}", "hashtextextended('{}', 0)"),
        ("hashtext-pair", "jobs, 7", "hashtext('jobs'), 7"),
        ("hashtext-pair", "'7','a,b'", "hashtext('7'), hashtext('a,b')"),
        ("md5-64-be", "x", "('x' || substr(md5('x'), 1, 16))::bit(64)::bigint"),
        ("sha256-64-be", "x", None),
    ],
)
def test_the_arguments_that_make_the_server_hash(scheme: str, name: str, sql: str | None) -> None:
    assert SCHEMES[scheme].sql_arguments(name) == sql


@pytest.mark.parametrize(
    ("scheme", "name", "encoding", "message"),
    [
        ("hashtext", "a\0b", "utf-8", r"'a\x00b': a text in PostgreSQL holds no NUL character"),
        ("md5-60", "a\0b", "utf-8", r"'a\x00b': a text in PostgreSQL holds no NUL character"),
        ("hashtext", "x ☃", "latin-1", r"'x ☃': '\u2603' is not in latin-1"),
        ("sha1-64-le", "\udc80", "utf-8", r"'\udc80': '\udc80' is not in utf-8"),
        ("java-hashcode", "\ud800", "utf-8", r"'\ud800': '\ud800' is not in utf-16-le"),
        ("dotnet-ascii", "café", "utf-8", r"'café': '\xe9' is not in ascii"),
        ("dotnet-ascii", "tenletters", "utf-8", "'tenletters': it is longer than 9 characters"),
        ("int", "42a", "utf-8", "'42a': it is not an integer"),
        ("int", "4_2", "utf-8", "'4_2': it is not an integer"),
        ("int", "٤٢", "utf-8", r"'٤٢': '\u0664' is not in ascii"),
        ("int", "9" * 5000, "utf-8", "'999999999999...9999999999999': it is not an integer"),
        (
            "int",
            "9223372036854775808",
            "utf-8",
            "'9223372036854775808': 9223372036854775808 does not fit a bigint (-2^63 to 2^63-1)",
        ),
        (
            "hashtext-pair",
            "nightly_report",
            "utf-8",
            "'nightly_report': write it as FIRST,SECOND, with '…' around a half that contains a comma",
        ),
        (
            "hashtext-pair",
            "tenant,2147483648",
            "utf-8",
            "'tenant,2147483648': 2147483648 does not fit an int4; write '2147483648' to hash it as a text",
        ),
        (
            "erlang-phash2",
            "{ecto,42}",
            "utf-8",
            """'{ecto,42}': write an Erlang term of atoms and "binaries", such as {ecto,nil,MyApp.Repo}""",
        ),
    ],
)
def test_a_name_that_a_scheme_cannot_hash_is_refused_with_the_reason(
    scheme: str, name: str, encoding: str, message: str
) -> None:
    with pytest.raises(UnhashableName) as refused:
        key_of(name, scheme, encoding=encoding)
    assert str(refused.value) == f"scheme {scheme} has no key for the name {message}"


@pytest.mark.parametrize("name", ["a,\0", "nightly_report", "a,'b", "a,\ud800"])
def test_the_server_is_not_asked_for_such_a_name_either(name: str) -> None:
    with pytest.raises(UnhashableName):
        SCHEMES["hashtext-pair"].sql_arguments(name)


def test_an_unknown_scheme_is_refused_with_those_that_come_near() -> None:
    with pytest.raises(UnknownScheme, match=r"^there is no scheme 'sha1_64_le': did you mean sha1-64-le"):
        key_of("x", "sha1_64_le")
    with pytest.raises(
        UnknownScheme, match=r"^there is no scheme '\?\?': choose one of hashtext, hashtext-pair, "
    ):
        key_of("x", "??")


@given(st.one_of(INT4, st.text()), st.one_of(INT4, st.text()))
def test_a_pair_is_written_so_that_it_is_split_into_the_same_halves(
    first: int | str, second: int | str
) -> None:
    name = pair_name(first, second).encode(errors="surrogatepass")
    assert halves(name) == tuple(
        half if isinstance(half, int) else half.encode(errors="surrogatepass") for half in (first, second)
    )


@pytest.mark.parametrize(
    ("first", "second", "name"),
    [("tenant", 42, "tenant,42"), ("tenant", "42", "tenant,'42'"), ("a,b", "it's", "'a,b',it's")],
)
def test_a_pair_is_written_as_plainly_as_possible(first: int | str, second: int | str, name: str) -> None:
    assert pair_name(first, second) == name


@given(PRINTABLE_ASCII)
def test_a_packed_name_is_read_back_from_its_key(name: str) -> None:
    scheme = SCHEMES["dotnet-ascii"]
    assert scheme.invert is not None
    assert scheme.invert(scheme.key(name)) == name


@given(INT4, INT4)
def test_whatever_is_read_from_a_pair_packs_to_that_pair(first: int, second: int) -> None:
    scheme, key = SCHEMES["dotnet-ascii"], AdvisoryKey.from_pair(first, second)
    assert scheme.invert is not None
    name = scheme.invert(key)
    assert name is None or (name.isprintable() and scheme.key(name) == key)


@given(st.integers(-(1 << 63), (1 << 63) - 1))
def test_an_integer_is_read_back_from_its_key(value: int) -> None:
    scheme = SCHEMES["int"]
    assert scheme.invert is not None
    assert scheme.invert(scheme.key(str(value))) == str(value)


@pytest.mark.parametrize(
    "key", [AdvisoryKey(0, 42, 9), AdvisoryKey.from_pair(0, 0), AdvisoryKey.from_pair(-1, -1)]
)
def test_no_name_is_read_from_a_key_that_has_none(key: AdvisoryKey) -> None:
    assert [scheme.invert(key) for scheme in SCHEMES.values() if scheme.invert] == [None, None]


@pytest.mark.parametrize(
    ("server_encoding", "codec"),
    [
        ("UTF8", "utf-8"),
        ("LATIN9", "iso8859-15"),
        ("WIN1252", "cp1252"),
        ("EUC_CN", "gb2312"),
        ("KOI8U", "koi8-u"),
        ("SQL_ASCII", "utf-8"),
        ("EUC_TW", "ascii"),
        ("MULE_INTERNAL", "ascii"),
    ],
)
def test_the_codec_of_a_database(server_encoding: str, codec: str) -> None:
    assert codec_of(server_encoding) == codec


def test_hashing_a_name_loads_nothing_that_it_does_not_need() -> None:
    program = (
        "import sys; before = set(sys.modules); from pglock_inspect.schemes import key_of; key_of('x');"
        "print(*{'hashlib', 'hmac', 'difflib', 'dataclasses', 'psycopg'} & (set(sys.modules) - before))"
    )
    assert subprocess.check_output([sys.executable, "-c", program], text=True).split() == []
