from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Protocol

import pytest

from pglock_inspect.config import Settings, Target, load_settings
from pglock_inspect.errors import ConfigError, UnhashableName
from pglock_inspect.keys import AdvisoryKey
from pglock_inspect.model import Job, Limits, RuleSettings

COMPLETE = Path(__file__).with_name("good_config.toml").read_text()


class Load(Protocol):
    def __call__(self, text: str) -> Settings: ...


@pytest.fixture
def load(tmp_path: Path) -> Load:
    """Loads a text as the user's own file."""

    def load(text: str) -> Settings:
        file = tmp_path / "own.toml"
        file.write_text(text)
        return load_settings(config=file, environ={}, cwd=tmp_path)

    return load


def test_without_a_file(tmp_path: Path) -> None:
    settings = load_settings(config=None, environ={}, cwd=tmp_path)
    assert settings == Settings(
        jobs=(),
        limits=Limits(max_held=3600, max_wait=60),
        scheme="hashtext",
        interval=2,
        names_query=None,
        read_tables=False,
        rules={},
        targets=(),
        sources=(),
    )


def test_everything_that_can_be_said(load: Load, tmp_path: Path) -> None:
    limits = Limits(max_held=900, max_wait=120)

    def job(name: str, **settings: object) -> Job:
        return Job(name, **{"scheme": "sha256-64-le", "limits": limits, **settings})  # type: ignore[arg-type]

    assert load(COMPLETE) == Settings(
        jobs=(
            Job(
                "send_daily_digest",
                scheme="hashtext",
                database="app",
                limits=Limits(max_held=600, max_wait=0),
                every=86_400,
                scope="transaction",
                heartbeat=30,
                min_held=5,
            ),
            job("cache-rebuild", key=AdvisoryKey.from_pair(42, -7)),
            job("leader", key=AdvisoryKey.from_bigint(-1), long_lived=True),
            job("per tenant", first=7),
            job("tenants", match="tenant:*"),
            job("as pg_locks shows it", key=AdvisoryKey(4294967295, 2337752054, 1)),
            job("sync"),
        ),
        limits=limits,
        scheme="sha256-64-le",
        interval=0.5,
        names_query="SELECT name FROM scheduled_jobs",
        read_tables=True,
        rules={
            "stale": RuleSettings(severity="warning", threshold=30),
            "prepared": RuleSettings(threshold=600),
            "waiting-long": RuleSettings(threshold=0.5),
            "unnamed": RuleSettings(severity="off"),
        },
        targets=(Target("prod", "service=prod password=${PROD_PASSWORD}"),),
        sources=(tmp_path / "own.toml",),
    )


def test_values_are_of_the_plain_types_that_every_presenter_can_write(load: Load) -> None:
    settings = load(COMPLETE)
    durations = [settings.interval, *(rule.threshold for rule in settings.rules.values())]
    for job in settings.jobs:
        durations += [job.limits.max_held, job.limits.max_wait, job.every, job.heartbeat, job.min_held]
        assert type(job.scheme) is str
    assert type(settings.scheme) is str
    assert {type(duration) for duration in durations} == {float, type(None)}


def test_a_job_needs_no_more_than_a_name_of_any_kind(load: Load) -> None:
    name = "täglich \x1b[31m\u202e {}"
    assert load(f"[[jobs]]\nname = {json.dumps(name)}").jobs == (Job(name),)


def test_one_name_or_key_in_two_databases(load: Load) -> None:
    settings = load("""
        jobs = [
            {name = "digest"},
            {name = "digest", database = "app", max_held = "1m"},
            {name = "other", key = 42, database = "one"},
            {name = "more", key = 42, database = "two"},
        ]
    """)
    assert [(job.name, job.database) for job in settings.jobs] == [
        ("digest", "app"),
        ("other", "one"),
        ("more", "two"),
        ("digest", None),
    ], "the job of one database comes first, since the first that claims a key names it"


def test_a_key_may_lie_in_a_namespace(load: Load) -> None:
    jobs = load('jobs = [{name = "all", key = [7, "*"]}, {name = "one", key = [7, 1]}]').jobs
    assert jobs == (Job("all", first=7), Job("one", key=AdvisoryKey.from_pair(7, 1)))


# --- Several files ------------------------------------------------------------------------------------


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home directory whose own configuration names the job `own`."""
    directory = tmp_path / "home" / ".config" / "pglock-inspect"
    directory.mkdir(parents=True)
    (directory / "config.toml").write_text('jobs = [{name = "own"}]')
    return tmp_path / "home"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A current directory with nothing in it."""
    (tmp_path / "project").mkdir()
    return tmp_path / "project"


def names(settings: Settings) -> list[str]:
    return [job.name for job in settings.jobs]


def test_the_users_own_file_is_below_xdg_config_home(home: Path, project: Path) -> None:
    for environ in (
        {"HOME": str(home)},
        {"HOME": str(home), "XDG_CONFIG_HOME": ""},
        {"HOME": str(home), "XDG_CONFIG_HOME": "relative"},
        {"HOME": "/nowhere", "XDG_CONFIG_HOME": str(home / ".config")},
    ):
        assert names(load_settings(config=None, environ=environ, cwd=project)) == ["own"]
    for environ in ({}, {"HOME": ""}, {"HOME": str(home), "XDG_CONFIG_HOME": "/nowhere"}):
        assert load_settings(config=None, environ=environ, cwd=project) == Settings()


def test_a_given_file_replaces_the_users_own(home: Path, project: Path) -> None:
    for name in ("flag", "variable"):
        (project / f"{name}.toml").write_text(f'jobs = [{{name = "{name}"}}]')
    environ = {"HOME": str(home), "PGLOCK_CONFIG": "variable.toml"}
    assert names(load_settings(config=None, environ=environ, cwd=project)) == ["variable"]
    assert names(load_settings(config=project / "flag.toml", environ=environ, cwd=project)) == ["flag"]
    environ["PGLOCK_CONFIG"] = ""
    assert names(load_settings(config=None, environ=environ, cwd=project)) == ["own"]


def test_dev_null_says_nothing_and_replaces_the_users_own_file(home: Path, project: Path) -> None:
    environ = {"HOME": str(home), "PGLOCK_CONFIG": "/dev/null"}
    assert names(load_settings(config=None, environ=environ, cwd=project)) == []


def test_the_projects_file_is_read_as_well(home: Path, project: Path) -> None:
    environ = {"HOME": str(home)}
    (project / "pyproject.toml").write_text('[tool.pglock-inspect]\njobs = [{name = "pyproject"}]')
    settings = load_settings(config=None, environ=environ, cwd=project)
    assert names(settings) == ["own", "pyproject"]
    assert settings.sources == (
        home / ".config" / "pglock-inspect" / "config.toml",
        project / "pyproject.toml",
    )
    (project / "pglock-inspect.toml").write_text('jobs = [{name = "project"}]')
    assert names(load_settings(config=None, environ=environ, cwd=project)) == ["own", "project"]
    assert names(load_settings(config=None, environ={}, cwd=project)) == ["project"]


@pytest.mark.parametrize(
    "text", ["", "[tool.ruff]\n", "[tool.other]\nname = 'pglock-inspect'\n", "<<<<<<< HEAD\n"]
)
def test_a_pyproject_that_says_nothing_to_us(text: str, project: Path) -> None:
    (project / "pyproject.toml").write_text(text)
    assert load_settings(config=None, environ={}, cwd=project) == Settings()


@pytest.mark.parametrize("name", ["pglock-inspect.toml", "pyproject.toml"])
def test_a_project_file_that_is_given_is_trusted_and_read_once(name: str, project: Path) -> None:
    file = project / name
    prefix = "tool.pglock-inspect." if name == "pyproject.toml" else ""
    file.write_text(f'{prefix}defaults.read_tables = true\n{prefix}jobs = [{{name = "digest"}}]')
    with pytest.raises(ConfigError, match="refused in a file that was merely found"):
        load_settings(config=None, environ={}, cwd=project)
    (project / "link.toml").symlink_to(file)
    given = [file, file.relative_to(project)] + ([project / "link.toml"] if not prefix else [])
    for config in given:
        settings = load_settings(config=config, environ={}, cwd=project)
        assert settings.read_tables
        assert settings.sources == (project / config,)


def test_a_given_file_reads_from_a_pipe(project: Path) -> None:
    script = (
        "import pathlib, os; from pglock_inspect.config import load_settings;"
        "print(load_settings(config=pathlib.Path('/dev/stdin'), environ={}, cwd=pathlib.Path()).jobs[0].name)"
    )
    run = subprocess.run(
        [sys.executable, "-c", script],
        input='jobs = [{name = "piped"}]',
        capture_output=True,
        text=True,
        check=True,
    )
    assert run.stdout == "piped\n"
    assert project.exists()


def test_what_the_users_own_file_says_goes_first(tmp_path: Path, project: Path) -> None:
    own = tmp_path / "own.toml"
    own.write_text("""
        defaults = {max_held = "30m", scheme = "md5-32"}
        jobs = [{name = "shared", max_held = "1m"}, {name = "mine"}]
        rules = {stale = {severity = "warning"}, unnamed = {severity = "off"}}
    """)
    (project / "pglock-inspect.toml").write_text("""
        defaults = {max_held = "2h", max_wait = "5m", interval = "10s", scheme = "int"}
        jobs = [{name = "shared", scheme = "hashtext", max_held = "9h"}, {name = "42"}]
        rules = {stale = {severity = "info", threshold = 10}, prepared = {threshold = "1h"}}
    """)
    settings = load_settings(config=own, environ={}, cwd=project)
    assert settings.jobs == (
        Job("shared", scheme="md5-32", limits=Limits(max_held=60, max_wait=60)),
        Job("mine", scheme="md5-32", limits=Limits(max_held=1800, max_wait=60)),
        Job("42", scheme="int", limits=Limits(max_held=7200, max_wait=300)),
    ), "a file's defaults are for its own jobs"
    assert settings.limits == Limits(max_held=1800, max_wait=300)
    assert (settings.scheme, settings.interval) == ("md5-32", 10)
    assert settings.rules == {
        "stale": RuleSettings(severity="warning", threshold=10),
        "prepared": RuleSettings(threshold=3600),
        "unnamed": RuleSettings(severity="off"),
    }


def test_two_files_may_give_one_key_two_names_and_the_users_own_goes_first(
    tmp_path: Path, project: Path
) -> None:
    own = tmp_path / "own.toml"
    own.write_text('jobs = [{name = "mine", key = 42}]')
    (project / "pglock-inspect.toml").write_text('jobs = [{name = "theirs", key = 42}]')
    assert names(load_settings(config=own, environ={}, cwd=project)) == ["mine", "theirs"]


def test_a_byte_order_mark_is_no_mistake(tmp_path: Path) -> None:
    file = tmp_path / "own.toml"
    file.write_bytes(b'\xef\xbb\xbfjobs = [{name = "digest"}]\r\n')
    assert names(load_settings(config=file, environ={}, cwd=tmp_path)) == ["digest"]


# --- Flags --------------------------------------------------------------------------------------------

TWO = Settings(jobs=(Job("a"), Job("b", limits=Limits(max_held=5, max_wait=5))), scheme="md5-32")


def test_limits_for_everything() -> None:
    settings = TWO.with_limits(max_held=1.0)
    assert settings.limits == Limits(max_held=1)
    assert [job.limits for job in settings.jobs] == [Limits(max_held=1), Limits(max_held=1, max_wait=5)]
    assert TWO.with_limits() == TWO


def test_limits_for_named_jobs() -> None:
    settings = TWO.with_limits(jobs=["b"], max_wait=0.0)
    assert settings.limits == Limits()
    assert [job.limits for job in settings.jobs] == [Limits(), Limits(max_held=5, max_wait=0)]


def test_a_job_that_is_not_configured_is_made_under_the_default_scheme() -> None:
    settings = TWO.with_limits(jobs=["c", "a", "c"], max_held=1.0)
    assert settings.jobs[2:] == (Job("c", scheme="md5-32", limits=Limits(max_held=1)),)
    assert settings.jobs[0].limits == Limits(max_held=1)
    assert TWO.with_limits(jobs=["c"]).jobs[2:] == (Job("c", scheme="md5-32"),)


def test_a_job_that_cannot_be_made() -> None:
    with pytest.raises(ConfigError, match=r"^a job's name must not be empty: give --job the name"):
        TWO.with_limits(jobs=[""])
    with pytest.raises(UnhashableName, match="scheme int has no key for the name 'digest'"):
        Settings(scheme="int").with_limits(jobs=["digest"])


# --- Cost ---------------------------------------------------------------------------------------------


def test_without_a_file_nothing_is_imported_that_only_a_file_needs(tmp_path: Path) -> None:
    script = (
        "import sys, pathlib; before = set(sys.modules); from pglock_inspect.config import load_settings;"
        "load_settings(config=None, environ={}, cwd=pathlib.Path(sys.argv[1]));"
        "print({'tomllib', 'difflib', 'psycopg', 'pglock_inspect.findings', 'pglock_inspect.config.tables'}"
        " & (set(sys.modules) - before))"
    )
    run = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path)], capture_output=True, text=True, check=True
    )
    assert run.stdout == "set()\n"
