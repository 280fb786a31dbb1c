"""What a stranger gets by `pip install`, on each Python."""

from __future__ import annotations

import json
import sys
from textwrap import dedent
from typing import TYPE_CHECKING

import pytest

from pglock_inspect import __version__
from pglock_inspect.cli.app import COMMANDS

if TYPE_CHECKING:
    from pathlib import Path

    from tests.packaging.conftest import Installed, Packages

pytestmark = pytest.mark.slow
DEAD = "host=127.0.0.1 port=1"

PERMISSIVE = {
    *("MIT", "MIT License", "BSD-2-Clause", "BSD-3-Clause", "BSD License", "ISC License (ISCL)", "PSF-2.0"),
    *("Apache-2.0", "Apache Software License", "Apache-2.0 AND BSD-2-Clause"),
}
LGPL = {"psycopg", "psycopg-binary"}
"""Used as they are, as a library: what LGPL-3.0-only asks for."""


def test_it_says_its_version(installed: Installed) -> None:
    for command in (["pglock-inspect"], ["python", "-m", "pglock_inspect"]):
        assert installed(*command, "--version").stdout == f"pglock-inspect {__version__}\n"


def test_every_command_can_be_loaded(installed: Installed) -> None:
    for command in COMMANDS:
        assert installed("pglock-inspect", command, "--help").stdout


def test_its_dependencies_fit_each_other(installed: Installed) -> None:
    installed("python", "-m", "pip", "check")


def test_nothing_is_sent_or_written_while_it_is_imported(installed: Installed) -> None:
    watch = """
        import sys
        sys.dont_write_bytecode = True
        def forbid(event, arguments):
            if event.startswith("socket."):
                raise RuntimeError(f"{event} {arguments}")
            if event == "open" and isinstance(arguments[1], str) and set(arguments[1]) & set("wax+"):
                raise RuntimeError(f"{event} {arguments}")
            if event in {"subprocess.Popen", "os.system", "os.mkdir", "os.rename", "os.remove", "os.fork"}:
                raise RuntimeError(f"{event} {arguments}")
        sys.addaudithook(forbid)
        from importlib import import_module
        from pkgutil import walk_packages
        import pglock_inspect
        found = [each.name for each in walk_packages(pglock_inspect.__path__, "pglock_inspect.")]
        for name in found:
            import_module(name)
        print(len(found))
    """
    assert int(installed("python", "-c", dedent(watch)).stdout) > 100


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["--version"], 0),
        (["--help"], 0),
        (["--completion", "bash"], 0),
        (["key", "send_daily_digest"], 0),
        (["identify", "1"], 0),
        (["init", "--print", "grants"], 0),
        (["ls", "--dsn", DEAD], 3),
        (["check", "--dsn", DEAD], 3),
        (["why", "job", "--dsn", DEAD], 3),
        (["doctor", "--dsn", DEAD], 3),
        (["run", "job", "--dsn", DEAD, "--", "true"], 69),
        (["ls", "--replay", "nothing.rec"], 3),
    ],
    ids=str,
)
def test_no_file_is_written_that_nobody_asked_for(
    installed: Installed, arguments: list[str], code: int, tmp_path: Path
) -> None:
    installed("pglock-inspect", *arguments, code=code, TMPDIR=str(tmp_path))
    assert [path.name for path in installed.home.rglob("*")] == ["here"]
    assert not [*tmp_path.iterdir()]


def test_bash_completes_commands_options_and_their_values(installed: Installed) -> None:
    complete = """
        eval "$(pglock-inspect --completion bash)"
        COMP_WORDS=(pglock-inspect "$@")
        COMP_CWORD=$#
        complete -p pglock-inspect | grep -q _pglock_inspect_completion
        _pglock_inspect_completion pglock-inspect
        printf '%s\\n' "${COMPREPLY[@]}"
    """

    def completed(*words: str) -> list[str]:
        return installed("bash", "-ec", dedent(complete), "bash", *words).stdout.split()

    assert completed("ch") == ["check"]
    assert {*COMMANDS} <= {*completed("")}
    assert "--must-be-held" in completed("check", "--must")
    assert completed("ls", "--format", "j") == ["json", "jsonl"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_every_shell_gets_its_script(installed: Installed, shell: str) -> None:
    script = installed("pglock-inspect", "--completion", shell).stdout
    assert f"{shell}_complete" in script
    assert "pglock-inspect" in script


def test_a_users_type_checker_sees_the_types(installed: Installed) -> None:
    program = """
        from datetime import timedelta

        import psycopg

        import pglock_inspect
        from pglock_inspect import Lock, LockError, arun_with_lock, run_with_lock, try_lock


        def digest() -> None: ...


        def main(connection: psycopg.Connection[tuple[object, ...]]) -> bool:
            try:
                with try_lock(connection, "digest", wait=timedelta(seconds=5)) as lock:
                    held: Lock = lock
                    held.check()
            except LockError as error:
                print(error, pglock_inspect.__version__)
            ran: bool = run_with_lock(connection, "digest", digest)
            return ran
    """
    place = installed.home.parent
    mypy = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(place / "mypy")]
    checker = [*mypy, "--python-executable", str(installed.python)]
    (place / "right.py").write_text(dedent(program))
    done = installed(*checker, str(place / "right.py"))
    assert done.stdout == "Success: no issues found in 1 source file\n"
    (place / "wrong.py").write_text(dedent(program).replace('"digest", digest', "7, digest"))
    done = installed(*checker, str(place / "wrong.py"), code=1)
    assert 'has incompatible type "int"; expected "str"' in done.stdout


def test_every_licence_is_permissive_or_a_librarys(installed: Installed, packages: Packages) -> None:
    demo = f"{packages.wheel}[demo]"
    installed("python", "-m", "pip", "install", "-qq", "--disable-pip-version-check", demo)
    tell = """
        import json
        from importlib.metadata import distributions
        print(json.dumps({
            found.name: found.metadata["License-Expression"]
            or [line.rpartition(" :: ")[2] for line in found.metadata.get_all("Classifier", [])
                if line.startswith("License ::")]
            or found.metadata["License"]
            for found in distributions()
        }))
    """
    licences = json.loads(installed("python", "-c", dedent(tell)).stdout)
    for name in {*licences} - {"pip", "setuptools"}:
        told = licences[name]
        allowed = {"LGPL-3.0-only"} if name in LGPL else PERMISSIVE
        assert {*told} <= allowed if isinstance(told, list) and told else told in allowed, f"{name}: {told}"
    assert licences.keys() >= LGPL
