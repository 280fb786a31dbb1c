from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import click
import pytest

from pglock_inspect import __version__
from pglock_inspect.cli import app
from pglock_inspect.cli.app import COMMANDS, run

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@pytest.fixture
def command_that(monkeypatch: pytest.MonkeyPatch) -> Callable[[BaseException], None]:
    """Makes a command `key` that raises."""

    def install(error: BaseException) -> None:
        def fail() -> None:
            raise error

        command = click.Command("key", callback=fail)
        monkeypatch.setattr(app.Commands, "get_command", lambda *_: command)

    return install


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--version"]) == 0
    assert capsys.readouterr().out == f"pglock-inspect {__version__}\n"


@pytest.mark.parametrize("arguments", [["-h"], ["--help"], *([name, "-h"] for name in COMMANDS)])
def test_help_fits_eighty_columns(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(arguments) == 0
    out, err = capsys.readouterr()
    assert out.startswith("Usage: pglock-inspect")
    assert all(len(line) <= 80 for line in out.splitlines())
    assert not err


def test_the_help_lists_every_command_with_a_whole_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    run(["--help"])
    listed = capsys.readouterr().out.partition("Commands:\n")[2].split("\n\n")[0]
    assert [line.split()[0] for line in listed.splitlines()] == list(COMMANDS)
    assert "..." not in listed


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ([], "give a command: "),
        (["lss"], "no such command 'lss'. Did you mean 'ls'?"),
        (["ls", "--formt", "json"], "no such option '--formt'. Did you mean '--format'?"),
        (["ls", "--format", "xml"], "invalid value for '--format': 'xml' is not one of"),
        (["ls", "extra"], "got unexpected extra argument (extra)"),
        (["check", "--max-held", "10"], "invalid value for '--max-held': '10' has no unit"),
        (["ls", "--every", "1ms"], "invalid value for '--every': '1ms' is too short: write at least 100 ms"),
        (["ls", "--every", "2d"], "invalid value for '--every': '2d' is too long: write at most 1 d"),
        (
            ["top", "--every", "9999999w"],
            "invalid value for '--every': '9999999w' is too long: write at most 1 d",
        ),
        (
            ["serve", "--interval", "9999999w"],
            "invalid value for '--interval': '9999999w' is too long: write at most 1 d",
        ),
        (["check", "--max-held", "soon"], "invalid value for '--max-held': 'soon' is no duration"),
        (
            ["check", "--severity", "stal=info"],
            "invalid value for '--severity': 'stal' is no rule: did",
        ),
        (
            ["check", "--severity", "no-locks"],
            "invalid value for '--severity': 'no-locks' has no severity: write no-locks=",
        ),
        (
            ["check", "--within", "1s"],
            "--within is for --must-be-held, --must-be-free",
        ),
        (["key"], "missing argument 'NAME...'"),
        (["key", "x", "--shceme", "int"], "no such option '--shceme'. Did you mean '--scheme'?"),
        (["key", "x", "-z"], "no such option '-z'"),
        (["key", "x", "--scheme", "hashtxt"], "there is no scheme 'hashtxt': did you mean hashtext"),
        (["ls", "\x1b[31m"], r"got unexpected extra argument (\x1b[31m)"),
        (["\udcff"], r"no such command '\udcff'"),
    ],
)
def test_wrong_usage_is_one_sentence_and_exit_code_3(
    arguments: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(arguments) == 3
    out, err = capsys.readouterr()
    assert err.startswith(f"pglock-inspect: {sentence}")
    assert len(err.splitlines()) == 1
    assert not out


@pytest.mark.parametrize(
    ("command", "unused"),
    [
        ("check", {"rich", "textual", "prometheus_client", "starlette", "uvicorn", "jinja2", "bcrypt"}),
        ("ls", {"textual", "prometheus_client", "starlette", "uvicorn", "jinja2", "bcrypt"}),
    ],
)
def test_a_command_pays_for_nothing_that_it_does_not_use(command: str, unused: set[str]) -> None:
    code = f"""import sys; from pglock_inspect.cli.app import run
assert run(["{command}", "--dsn", "host=127.0.0.1 port=1"]) == 3
print("loaded:", *{unused} & set(sys.modules))"""
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert shown.stdout.splitlines()[-1].split() == ["loaded:"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_is_a_script_of_the_shell(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--completion", shell]) == 0
    assert "_PGLOCK_INSPECT_COMPLETE" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "completions"),
    [
        ("ch", ["check"]),
        ("ls --for", ["--format"]),
        ("ls --format js", ["json", "jsonl"]),
        ("ls --job send_", ["send_daily_digest", "send_invoices"]),
        ("check --target p", ["prod"]),
        ("--config nowhere.toml check --target p", []),
    ],
)
def test_completion_knows_commands_options_and_what_is_configured(
    words: str,
    completions: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    own = tmp_path / "own.toml"
    own.write_text(
        '[[jobs]]\nname = "send_daily_digest"\n[[jobs]]\nname = "send_invoices"\n'
        '[[jobs]]\nname = "backup"\n[[targets]]\nname = "prod"\ndsn = "host=db"\n'
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PGLOCK_CONFIG", str(own))
    monkeypatch.setenv("_PGLOCK_INSPECT_COMPLETE", "bash_complete")
    monkeypatch.setenv("COMP_WORDS", f"pglock-inspect {words}")
    monkeypatch.setenv("COMP_CWORD", str(len(words.split())))
    assert run([]) == 0
    assert capsys.readouterr().out.split() == [f"plain,{word}" for word in completions]


def test_what_nobody_foresaw_is_one_sentence_without_its_text(
    command_that: Callable[[BaseException], None],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    command_that(RuntimeError("password=secret"))
    assert run(["key"]) == 3
    out, err = capsys.readouterr()
    assert err == (
        "pglock-inspect: something unforeseen went wrong (RuntimeError): PGLOCK_DEBUG=1 shows where\n"
    )
    assert not out
    monkeypatch.setenv("PGLOCK_DEBUG", "1")
    with pytest.raises(RuntimeError):
        run(["key"])


@pytest.mark.parametrize("error", [KeyboardInterrupt(), click.Abort()])
def test_an_interrupt_is_quiet(
    error: BaseException,
    command_that: Callable[[BaseException], None],
    capsys: pytest.CaptureFixture[str],
) -> None:
    command_that(error)
    assert run(["key"]) == 130
    assert capsys.readouterr() == ("", "")
