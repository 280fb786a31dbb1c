"""The ``pglock-inspect`` command: finding its commands, and what holds for all of them."""

from __future__ import annotations

import os
from importlib import import_module
from typing import TYPE_CHECKING, Annotated, Literal

import click
from typer import Context, Option
from typer.core import TyperGroup
from typer.main import get_command, get_group

from pglock_inspect import __version__
from pglock_inspect.cli.commands import command_app
from pglock_inspect.cli.exit_codes import ExitCode, RunCode
from pglock_inspect.cli.options import Access, connection_options
from pglock_inspect.cli.output import PROGRAM, prepare, talk, writing
from pglock_inspect.errors import PglockInspectError

if TYPE_CHECKING:
    from collections.abc import Sequence

# In the order of the help. A command is a module of this package with an `app`: a Typer app of one function.
COMMANDS = (
    *("top", "ls", "check", "why", "kill", "run", "serve", "record", "doctor", "key", "identify", "init"),
    "demo",
)

_COMPLETION = "_PGLOCK_INSPECT_COMPLETE"


class Commands(TyperGroup):
    """A group that imports a command when it is asked for: `check` pays for nothing else."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        """Return the names of all commands."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """Return one command, or None where there is none of this name."""
        if cmd_name not in COMMANDS:
            return None
        return get_command(import_module(f"pglock_inspect.cli.{cmd_name}").app)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command that the arguments begin with; an unknown one is told with its near ones."""
        if args and args[0] not in COMMANDS and not ctx.resilient_parsing:
            raise click.NoSuchCommand(args[0], possibilities=COMMANDS, ctx=ctx)
        return super().resolve_command(ctx, args)


def _print_version(ctx: Context, asked: bool) -> None:  # noqa: FBT001 - Typer passes it so
    if asked and not ctx.resilient_parsing:
        click.echo(f"{PROGRAM} {__version__}")
        ctx.exit()


def _print_completion(ctx: Context, shell: str | None) -> None:
    if shell is None or ctx.resilient_parsing:
        return
    from click.shell_completion import get_completion_class  # noqa: PLC0415

    completion = get_completion_class(shell)
    assert completion is not None
    click.echo(completion(app, {}, PROGRAM, _COMPLETION).source())
    ctx.exit()


_program = command_app(
    cls=Commands,
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="The connection is libpq's: PG* variables, services and ~/.pgpass count.",
)


@_program.callback()
@connection_options
def _options(
    access: Access,
    *,
    version: Annotated[
        bool,
        Option("--version", callback=_print_version, is_eager=True, help="Show the version and exit."),
    ] = False,
    completion: Annotated[
        Literal["bash", "zsh", "fish"] | None,
        Option(
            callback=_print_completion,
            is_eager=True,
            help="Print what makes this shell complete commands and options.",
        ),
    ] = None,
) -> None:
    """Tell which job holds which PostgreSQL advisory lock, since when, who waits, and what to do."""


app = get_group(_program)


def run(arguments: Sequence[str]) -> int:
    """Run a command and return its exit code. Every failure ends in one sentence on stderr."""
    prepare()
    if instruction := os.environ.get(_COMPLETION):
        from click.shell_completion import shell_complete  # noqa: PLC0415

        return shell_complete(app, {}, PROGRAM, _COMPLETION, instruction)
    context, foreseen = None, True
    try:
        with writing(), app.make_context(PROGRAM, list(arguments)) as context:
            code = app.invoke(context)
    except click.exceptions.Exit as done:
        return done.exit_code
    except click.UsageError as error:
        talk(_usage(error))
    except (click.ClickException, PglockInspectError) as error:
        talk(str(error))
    except BrokenPipeError:
        return ExitCode.BROKEN_PIPE
    except (KeyboardInterrupt, click.Abort):
        return ExitCode.INTERRUPTED
    except Exception as error:
        if os.environ.get("PGLOCK_DEBUG"):
            raise
        # Without its text, which may quote a password.
        talk(f"something unforeseen went wrong ({type(error).__name__}): PGLOCK_DEBUG=1 shows where")
        foreseen = False
    else:
        return int(code or ExitCode.OK)
    return _failure_code(context, foreseen=foreseen)


def _failure_code(context: click.Context | None, *, foreseen: bool) -> int:
    if context is None or context.invoked_subcommand != "run":
        return ExitCode.UNKNOWN
    return RunCode.USAGE if foreseen else RunCode.SOFTWARE


def _usage(error: click.UsageError) -> str:
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        return f"give a command: {', '.join(COMMANDS)} (see '{PROGRAM} --help')"
    command = error.ctx.command_path if error.ctx else PROGRAM
    message = error.format_message().rstrip(".")
    return f"{message[:1].lower()}{message[1:]} (see '{command} --help')"
