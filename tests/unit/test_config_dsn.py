from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given, settings, strategies as st
from psycopg.conninfo import conninfo_to_dict

from pglock_inspect.config import Target, resolve_dsn
from pglock_inspect.errors import ConfigError

VALUES = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=30)


def resolve(dsn: str, **environ: str) -> dict[str, str | int | None]:
    return conninfo_to_dict(resolve_dsn(Target("prod", dsn), environ))


@pytest.mark.parametrize(
    "dsn",
    [
        "host=db1 user=app password=${PW}",
        "host=db1 user=app password='${PW}'",
        "postgresql://app:${PW}@db1",
        "postgresql://db1?user=app&password=${PW}",
    ],
)
@settings(deadline=None)  # the first example imports
@given(password=VALUES)
def test_a_value_stays_one_value(dsn: str, password: str) -> None:
    assert resolve(dsn, PW=password) == {"host": "db1", "user": "app", "password": password}


def test_a_value_cannot_bring_in_a_parameter() -> None:
    assert resolve("host=db1 password=${PW}", PW="x host=evil sslmode='disable") == {
        "host": "db1",
        "password": "x host=evil sslmode='disable",
    }


def test_a_value_is_not_looked_into_again() -> None:
    assert resolve("password=${A}", A="${B}", B="secret") == {"password": "${B}"}


def test_variables_stand_anywhere_in_a_value() -> None:
    dsn = "host=${A},${B} application_name='$A ${} {A} ${A'"
    assert resolve(dsn, A="db1", B="db2", **{"": "nothing"}) == {
        "host": "db1,db2",
        "application_name": "$A nothing {A} ${A",
    }


def test_a_string_without_variables_says_the_same() -> None:
    assert resolve("service=prod connect_timeout=3") == {"service": "prod", "connect_timeout": "3"}


def test_a_variable_that_is_not_set() -> None:
    with pytest.raises(ConfigError) as caught:
        resolve("host=db1 user=${USER} password=${PW}", USER="app")
    assert str(caught.value) == "the dsn of target 'prod' needs the environment variable 'PW': set it"


def test_a_variable_that_is_not_text() -> None:
    with pytest.raises(ConfigError) as caught:
        resolve("host=db1 password=${PW}", PW="p\udcff")
    assert str(caught.value) == (
        "the dsn of target 'prod' needs the environment variable 'PW' in UTF-8: set it anew"
    )


def test_a_variable_for_the_whole_string() -> None:
    with pytest.raises(ConfigError) as caught:
        resolve("${DATABASE_URL}", DATABASE_URL="postgresql://app:secret@db1/app")
    assert str(caught.value) == (
        "the dsn of target 'prod' is all one variable, but a variable stands for one value:"
        " write it like 'host=db1 user=app password=${PASSWORD}'"
    )


@pytest.mark.parametrize(
    "dsn",
    [
        "secret",
        "password=se cret",
        "password='secret",
        "postgresql://app:sec ret@db1",
        "host=db1\0 password=secret",
    ],
)
def test_what_is_no_connection_string_is_not_quoted(dsn: str) -> None:
    with pytest.raises(ConfigError) as caught:
        resolve(dsn)
    assert str(caught.value) == (
        "the dsn of target 'prod' is no connection string: write 'host=db1 user=app' or"
        " 'postgresql://app@db1/app', and quote or percent-encode special characters"
    )


@settings(deadline=None)  # the first example imports
@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_no_string_causes_another_error(dsn: str) -> None:
    with suppress(ConfigError):
        resolve(dsn)
