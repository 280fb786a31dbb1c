"""Accounts as text with its labels in a column, or as JSON."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from pglock_inspect.present.cells import pad, wrap
from pglock_inspect.present.document import key_fields
from pglock_inspect.present.json import dump
from pglock_inspect.present.text import printable, well_formed

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pglock_inspect.present.account import Account
    from pglock_inspect.present.paper import Paper

    Told = Sequence[tuple[str, Sequence[Account]]]
    """Accounts by target."""

_LABELS = 10
_INDENT = "  "
_LEAST = 20
_WHOLE = re.compile(r"pglock-inspect \w+(?: [\w:/-]+(?:,-?\d+)?)?(?: --\w+)?|\d (?:ms|s|min|h|d)\b")
"""What stays on one line: a command, to be copied, and a number with its unit."""
_GLUE = "\N{NO-BREAK SPACE}"  # no text has it, once it is printable


def as_text(told: Told, paper: Paper) -> str:
    """Return the accounts for a person; the target stands above them where there are several."""
    blocks = []
    for target, its_accounts in told:
        head = [f"{printable(target)}:"] if len(told) > 1 else []
        blocks += ["\n".join([*head, *_lines(account, paper)]) for account in its_accounts]
    return "\n\n".join(blocks)


def _lines(account: Account, paper: Paper) -> Iterator[str]:
    yield from _wrapped(printable(account.title), paper.width)
    before = ""
    for line in account.lines:
        label = "" if line.label == before else line.label
        before = line.label
        room = None if paper.width is None else paper.width - len(_INDENT) - _LABELS
        for text in _wrapped(printable(line.text), room):
            yield f"{_INDENT}{pad(label, _LABELS)}{text}"
            label = ""


def _wrapped(text: str, cells: int | None) -> Iterator[str]:
    """Yield the lines of a text."""
    if cells is None:
        yield text
        return
    most = max(cells, _LEAST)
    glued = _WHOLE.sub(
        lambda found: found[0].replace(" ", _GLUE) if len(found[0]) <= most else found[0], text
    )
    for line in wrap(glued, most):
        yield line.replace(_GLUE, " ")


def as_json(told: Told) -> str:
    """Return the accounts for a program: an array, one element for each key of each target."""
    return dump(
        [
            {
                "target": well_formed(target),
                "key": {"database": _text(account.database), **key_fields(account.key)},
                "job": _text(account.job),
                "title": well_formed(account.title),
                "lines": [{"label": line.label, "text": well_formed(line.text)} for line in account.lines],
            }
            for target, its_accounts in told
            for account in its_accounts
        ],
        indent=2,
    )


def _text(text: str | None) -> str | None:
    return None if text is None else well_formed(text)
