"""What a command is: a Typer app of one function, whose help is plain text and whose errors are ours."""

from __future__ import annotations

import re
from typing import Any

import click
from typer import Typer
from typer.core import TyperCommand

_NUMBER = re.compile(r"-\d")


def command_app(**settings: Any) -> Typer:  # noqa: ANN401
    """Return an app that loads no rich, for the one command of a module, or for the program itself."""
    return Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False, **settings)


class DashedArguments(TyperCommand):
    """Takes ``-1957215242`` for an argument without ``--`` before it; an unknown option stays an error."""

    ignore_unknown_options = True

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse, then refuse what was taken for an argument but looks like an option."""
        before_dashes = args[: args.index("--")] if "--" in args else args.copy()
        rest = super().parse_args(ctx, args)
        for parameter in self.params:
            if isinstance(parameter, click.Argument) and parameter.name:
                value = ctx.params[parameter.name]
                for text in value if isinstance(value, (list, tuple)) else (value,):
                    if isinstance(text, str) and text in before_dashes and self._is_option(text):
                        options = [name for option in self.params for name in option.opts if name[:1] == "-"]
                        raise click.NoSuchOption(text, possibilities=options, ctx=ctx)
        return rest

    @staticmethod
    def _is_option(text: str) -> bool:
        return text.startswith("-") and len(text) > 1 and not _NUMBER.match(text)
