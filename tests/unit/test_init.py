from __future__ import annotations

import re
import subprocess
from typing import TYPE_CHECKING

import pytest
from typer.testing import CliRunner

from pglock_inspect.cli.init import CannotWrite, app
from pglock_inspect.config import Settings, load_settings
from pglock_inspect.config.tables import TABLES
from tests.support.requirements import program

if TYPE_CHECKING:
    from pathlib import Path

    from click.testing import Result

WRITTEN = ["pglock-inspect-alerts.yml", "pglock-inspect-role.sql", "pglock-inspect.toml"]
COMMENTED_SETTING = re.compile(r"^# (\[.*\]|\w+ = .*)$", re.MULTILINE)


def init(*arguments: str) -> Result:
    return CliRunner().invoke(app, arguments, catch_exceptions=False, standalone_mode=False)


def contents(directory: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in sorted(directory.iterdir())}


def test_writes_three_files_and_says_so(tmp_path: Path) -> None:
    result = init("-C", str(tmp_path))
    assert result.stdout == ""
    assert result.stderr.splitlines() == [
        f"pglock-inspect: wrote {tmp_path}/pglock-inspect.toml: a configuration with every setting explained",
        f"pglock-inspect: wrote {tmp_path}/pglock-inspect-alerts.yml: alert rules for Prometheus",
        f"pglock-inspect: wrote {tmp_path}/pglock-inspect-role.sql: SQL that makes a role for watching",
    ]
    assert list(contents(tmp_path)) == WRITTEN


def test_writes_here_unless_told_otherwise(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    init()
    assert list(contents(tmp_path)) == WRITTEN


@pytest.mark.parametrize(("printed", "file"), [*zip(["alerts", "grants", "config"], WRITTEN, strict=True)])
def test_prints_what_it_would_write(printed: str, file: str, tmp_path: Path) -> None:
    init("-C", str(tmp_path))
    assert init("--print", printed).stdout == (tmp_path / file).read_text()


def test_writes_nothing_where_something_is(tmp_path: Path) -> None:
    mine = tmp_path / "pglock-inspect-role.sql"
    mine.write_text("mine")
    (tmp_path / "pglock-inspect.toml").symlink_to("nowhere")
    with pytest.raises(CannotWrite) as caught:
        init("-C", str(tmp_path))
    assert str(caught.value) == (
        f"already there: {tmp_path}/pglock-inspect.toml, {mine}; nothing was written, --force overwrites"
    )
    assert mine.read_text() == "mine"
    assert not (tmp_path / "pglock-inspect-alerts.yml").exists()


def test_overwrites_by_force(tmp_path: Path) -> None:
    mine = tmp_path / "pglock-inspect-role.sql"
    mine.write_text("mine")
    init("--directory", str(tmp_path), "--force")
    assert list(contents(tmp_path)) == WRITTEN
    assert "CREATE ROLE" in mine.read_text()


def test_what_appears_meanwhile_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "pglock-inspect.toml").write_text("mine")
    monkeypatch.setattr("os.path.lexists", lambda _: False)
    with pytest.raises(CannotWrite, match=r"pglock-inspect.toml cannot be written \(File exists\)"):
        init("-C", str(tmp_path))
    assert contents(tmp_path) == {"pglock-inspect.toml": "mine"}


def test_a_directory_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(CannotWrite) as caught:
        init("-C", str(tmp_path / "missing"))
    assert str(caught.value) == (
        f"{tmp_path}/missing/pglock-inspect.toml cannot be written (No such file or directory):"
        " name another directory with -C"
    )


def test_the_configuration_changes_nothing_until_it_is_edited(tmp_path: Path) -> None:
    init("-C", str(tmp_path))
    settings = load_settings(config=None, environ={}, cwd=tmp_path)
    assert settings == Settings(sources=(tmp_path / "pglock-inspect.toml",))


def test_every_setting_is_explained_and_every_example_loads(tmp_path: Path) -> None:
    text = init("--print", "config").stdout
    file = tmp_path / "all.toml"
    file.write_text(COMMENTED_SETTING.sub(r"\1", text))
    settings = load_settings(config=file, environ={}, cwd=tmp_path)
    assert len(settings.jobs) == text.count("# [[jobs]]") > 1
    assert len(settings.rules) == text.count("# [rules.") > 1
    assert len(settings.targets) == text.count("# [[targets]]") == 1
    explained = set(re.findall(r"^(?:# )?(\w+) = ", text, re.MULTILINE))
    assert explained == {key for table in TABLES.values() for key in table.__struct_fields__}


def test_the_alert_rules_are_valid(tmp_path: Path) -> None:
    init("-C", str(tmp_path))
    check = [program("promtool"), "check", "rules", str(tmp_path / "pglock-inspect-alerts.yml")]
    assert "SUCCESS" in subprocess.run(check, capture_output=True, text=True, check=True).stdout
