"""What each command takes, as `--help` says it."""

from __future__ import annotations

from click import Context

from pglock_inspect.cli.app import app
from pglock_inspect.cli.output import PROGRAM

_INTRODUCTION = """\
# Options

What `--help` says of each command. [Commands](commands.md) tells what they are for, with examples.
"""
_WIDTH = 100  # characters


def page() -> str:
    """Return the page, in Markdown."""
    with Context(app, info_name=PROGRAM, terminal_width=_WIDTH, **app.context_settings) as program:
        parts = [_INTRODUCTION, _part(PROGRAM, app.get_help(program))]
        for name in app.list_commands(program):
            command = app.get_command(program, name)
            assert command
            context = Context(command, info_name=name, parent=program, terminal_width=_WIDTH)
            parts.append(_part(name, command.get_help(context)))
    return "\n".join(parts)


def _part(heading: str, text: str) -> str:
    return f"## {heading}\n\n```\n{text}\n```\n"
