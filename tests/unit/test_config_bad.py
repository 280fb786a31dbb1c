"""Bad files. Each states, in the comment on its first line, the message that it has to cause."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from pglock_inspect.config import load_settings
from pglock_inspect.errors import ConfigError
from pglock_inspect.findings import RULES

BAD = Path(__file__).with_name("bad_configs")


def bad_files(kind: str) -> list[Path]:
    files = sorted((BAD / kind).glob("*.toml"))
    assert files
    return files


def expected_message(file: Path) -> str:
    first_line = file.read_bytes().partition(b"\n")[0].decode()
    assert first_line.startswith("# ")
    return first_line.removeprefix("# ")


def message_of(config: Path | None, cwd: Path, **environ: str) -> str:
    with pytest.raises(ConfigError) as caught:
        load_settings(config=config, environ=environ, cwd=cwd)
    assert str(caught.value).isprintable()
    return str(caught.value)


@pytest.mark.parametrize("file", bad_files("own"), ids=lambda file: file.stem)
def test_the_users_own_file(file: Path, tmp_path: Path) -> None:
    assert message_of(file, tmp_path) == f"{file}: {expected_message(file)}"


@pytest.mark.parametrize("file", bad_files("project"), ids=lambda file: file.stem)
def test_a_file_that_was_merely_found(file: Path, tmp_path: Path) -> None:
    found = tmp_path / "pglock-inspect.toml"
    found.write_bytes(file.read_bytes())
    assert message_of(None, tmp_path) == f"{found}: {expected_message(file)}"


def test_a_pyproject_that_was_merely_found(tmp_path: Path) -> None:
    found = tmp_path / "pyproject.toml"
    found.write_text("[tool.pglock-inspect.defaults]\nread_tables = true\n")
    at = "tool.pglock-inspect.defaults.read_tables"
    assert message_of(None, tmp_path).startswith(f"{found}: {at}: read_tables is refused in a file that was")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            "[tool.pglock-inspect]\nmax_held = '1m'\n",
            "tool.pglock-inspect: 'max_held' is not known here: it belongs in [defaults] or [[jobs]]",
        ),
        (
            "[[tool.pglock-inspect.jobs]]\nname = 'digest'\nevery = 1\n",
            "tool.pglock-inspect.jobs[0].every (job 'digest'): must be a duration in quotes, like \"10m\"",
        ),
        ("[[tool.pglock-inspect]]\n", "tool.pglock-inspect: must be a table"),
    ],
)
def test_a_bad_table_in_pyproject_is_named_in_full(content: str, message: str, tmp_path: Path) -> None:
    found = tmp_path / "pyproject.toml"
    found.write_text(content)
    assert message_of(None, tmp_path) == f"{found}: {message}"


@pytest.mark.parametrize("content", ["", "[tool]\n", "tool = 1\n", "[tool.other]\nname = 'pglock-inspect'\n"])
def test_a_given_pyproject_without_the_table(content: str, tmp_path: Path) -> None:
    given = tmp_path / "pyproject.toml"
    given.write_text(content)
    assert message_of(given, tmp_path) == (
        f"{given}: has no table [tool.pglock-inspect]: add it, or name another file"
    )


def test_a_given_file_that_is_not_there(tmp_path: Path) -> None:
    missing = tmp_path / "missing.toml"
    expected = f"{missing}: there is no such file: correct --config or PGLOCK_CONFIG"
    assert message_of(missing, tmp_path) == expected
    assert message_of(Path("missing.toml"), tmp_path) == expected
    assert message_of(None, tmp_path, PGLOCK_CONFIG="missing.toml") == expected


def test_a_directory(tmp_path: Path) -> None:
    (tmp_path / "pglock-inspect.toml").mkdir()
    expected = f"{tmp_path / 'pglock-inspect.toml'}: is not a file: remove it, or name a file with --config"
    assert message_of(None, tmp_path) == expected
    assert message_of(tmp_path / "pglock-inspect.toml", tmp_path) == expected


def test_a_pipe_in_the_current_directory_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pglock-inspect.toml")
    assert message_of(None, tmp_path) == (
        f"{tmp_path / 'pglock-inspect.toml'}: is not a file: remove it, or name a file with --config"
    )


def test_a_file_that_may_not_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "config.toml"
    file.touch()

    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", refuse)
    assert message_of(file, tmp_path) == f"{file}: cannot be read (Permission denied): make it readable"


def test_a_name_that_no_file_system_has(tmp_path: Path) -> None:
    assert message_of(Path("x" * 5000), tmp_path).endswith(
        ": cannot be read (File name too long): make it readable"
    )


def test_a_huge_file(tmp_path: Path) -> None:
    expected = "is larger than 1 MiB, which no configuration is: name another file"
    file = tmp_path / "config.toml"
    file.write_bytes(b"#" * (1 << 20))
    assert load_settings(config=file, environ={}, cwd=tmp_path).sources == (file,)
    file.write_bytes(b"#" * ((1 << 20) + 1))
    assert message_of(file, tmp_path) == f"{file}: {expected}"
    assert message_of(Path("/dev/zero"), tmp_path) == f"/dev/zero: {expected}"


def test_a_value_nested_too_deep(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_text(f"jobs = {'[' * 100_000}{']' * 100_000}")
    assert message_of(file, tmp_path) == (
        f"{file}: is no TOML that can be read: a number is too long or a value nested too deep"
    )


def test_a_key_of_too_many_parts(tmp_path: Path) -> None:
    found = tmp_path / "pglock-inspect.toml"
    for dots in (201, 200_000):
        found.write_text(f"[defaults]\n{'a.' * dots}a = 1")
        assert message_of(None, tmp_path) == f"{found}: line 2: has more than 200 dots: write less on a line"


def test_tables_nested_too_deep(tmp_path: Path) -> None:
    found = tmp_path / "pglock-inspect.toml"
    inline_tables = 20 * f"{{{'a.' * 199}a = [\n"
    found.write_text(f"[[jobs]]\nname = 'a'\nkey = {inline_tables}{20 * ']}'}")
    assert message_of(found, tmp_path).endswith(
        "jobs[0].key (job 'a'): must be an integer, a string or an array, not a table"
    )
    found.write_text(f"rules.unnamed = {inline_tables}{20 * ']}'}")
    assert message_of(None, tmp_path) == f"{found}: holds values nested too deep: write them flat"


def test_a_rule_that_none_comes_near(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_text("rules.zebra = {}")
    names = ", ".join(rule.name for rule in RULES)
    assert message_of(file, tmp_path) == f"{file}: rules: 'zebra' is no rule: write one of {names}"


def test_a_path_with_control_characters_is_shown_inert(tmp_path: Path) -> None:
    assert r"\x1b[2J\u202e" in message_of(Path("\x1b[2J\u202e.toml"), tmp_path)


def test_a_message_stays_short_whatever_the_file_holds(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    for long in (
        "x" * 500_000,
        "x" * 500_000 + " = 1",
        "[[jobs]]\nname = 'a'\nkey = '" + "x" * 500_000 + "'",
    ):
        file.write_text(long)
        assert len(message_of(file, tmp_path)) < 1500
