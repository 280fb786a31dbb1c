"""The words in which a session may have said its lock's name: in its statement, in its application's name."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from pglock_inspect.model import Session

_LONGEST_STATEMENT = 16_384  # characters that are looked at
_LONGEST_NAME = 200
_MOST_WORDS = 50
_REACH = 12  # tokens after the name of a function that may still be its argument

# Each alternative takes all that it has begun and never gives back: one pass, whatever the text.
_TOKEN = re.compile(
    r"""--(?P<line>[^\n]*+)
      | /\*(?P<block>(?:[^*]++|\*(?!/))*+)(?:\*/)?
      | [eE]'(?P<escaped>(?:[^'\\]++|\\.|'')*+)'
      | '(?P<string>(?:[^']++|'')*+)'
      | '.*  # cut off
      | "(?:[^"]++|"")*+"?
      | \$(?P<tag>(?:[^\W\d]\w*)?)\$(?P<body>[^$]*+)\$(?P=tag)\$
      | (?P<word>[^\W\d]\w*+)
      | (?P<number>\d++)
      | (?P<join>\|\|)
      | (?P<cast>::\s*\w*+)
      | (?P<other>[^\s()])""",
    re.VERBOSE | re.DOTALL,
)
_MAY_TELL = re.compile(r"['$]|--|/\*")
_TAKES_NAME = re.compile(r"advisory|lock|hash|md5|sha\d|digest|crc", re.IGNORECASE)
_ESCAPE = re.compile(r"''|\\(?:x([0-9a-fA-F]{1,2})|u([0-9a-fA-F]{4})|(.))", re.DOTALL)
_CONTROL = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_SEPARATOR = re.compile(r"[\s,:;=/|@#()\[\]'\"]+")


class Words(Struct, frozen=True):
    """Texts that may be names, the likeliest first, and the seeds given to ``hashtextextended()``."""

    texts: tuple[str, ...] = ()
    seeds: tuple[int, ...] = ()


def words_of_statement(statement: str) -> Words:
    """Return the literals and comments of a statement, those in the call of a hash or a lock first."""
    return _words_of(statement[:_LONGEST_STATEMENT]) if _MAY_TELL.search(statement) else Words()


# Sessions of one application say much the same, poll after poll.
@lru_cache(maxsize=256)
def _words_of(statement: str) -> Words:
    listener = _Listener()
    listener.hear(statement)
    return Words(
        tuple(dict.fromkeys(listener.near + listener.far))[:_MOST_WORDS],
        tuple(dict.fromkeys(listener.seeds))[:_REACH],
    )


@lru_cache(maxsize=4096)
def words_of_application(name: str) -> Words:
    """Return an application's name, and its parts."""
    return Words(tuple(dict.fromkeys(_pieces(name)))[:_MOST_WORDS])


def said(session: Session) -> tuple[str | None, str | None]:
    """Return what a session says: as long as it is the same, there is nothing new to learn."""
    return session.query, session.application_name


class _Listener:
    """Picks words out of SQL, token by token."""

    def __init__(self) -> None:
        self.near: list[str] = []
        self.far: list[str] = []
        self.seeds: list[int] = []
        self._joined = ""  # the literals right before this token, which || has joined
        self._joins = self._negative = False
        self._reach = self._seed_reach = 0

    def hear(self, text: str) -> None:
        for token in _TOKEN.finditer(text):
            self._reach -= 1
            self._seed_reach -= 1
            kind = token.lastgroup or ""
            if kind in _HEARD:
                _HEARD[kind](self, token[kind])

    def comment(self, text: str) -> None:
        self.far += _pieces(text)

    def string(self, text: str) -> None:
        self._add(text.replace("''", "'"))

    def escaped(self, text: str) -> None:
        self._add(_ESCAPE.sub(_unescaped, text))

    def body(self, text: str) -> None:
        """Take a text between dollars as a literal, and as SQL."""
        self._add(text)
        self.hear(text)

    def number(self, digits: str) -> None:
        if self._seed_reach > 0:
            seed = int(digits[:19])
            self.seeds.append(-seed if self._negative else seed)
        self._negative = False
        self._join_to(digits)

    def word(self, word: str) -> None:
        self._joined, self._joins = "", False
        if _TAKES_NAME.search(word):
            self._reach = _REACH
        if word.lower() == "hashtextextended":
            self._seed_reach = _REACH

    def join(self, _: str) -> None:
        self._joins = True

    def other(self, character: str) -> None:
        self._joined, self._joins = "", False
        self._negative = character == "-"

    def _add(self, literal: str) -> None:
        self._take(literal)
        self._join_to(literal)

    def _join_to(self, literal: str) -> None:
        if not self._joins:
            self._joined = literal
            return
        self._joins = False
        if len(self._joined) <= _LONGEST_NAME:  # once longer, it stays so
            self._joined += literal
        self._take(self._joined)

    def _take(self, text: str) -> None:
        if 0 < len(text) <= _LONGEST_NAME:
            (self.near if self._reach > 0 else self.far).append(text)


_HEARD: Mapping[str, Callable[[_Listener, str], None]] = {
    "line": _Listener.comment,
    "block": _Listener.comment,
    "string": _Listener.string,
    "escaped": _Listener.escaped,
    "body": _Listener.body,
    "number": _Listener.number,
    "word": _Listener.word,
    "join": _Listener.join,
    "other": _Listener.other,
}


def _unescaped(escape: re.Match[str]) -> str:
    by_hex = escape[1] or escape[2]
    if by_hex:
        return chr(int(by_hex, 16))
    return "'" if escape[3] is None else _CONTROL.get(escape[3], escape[3])


def _pieces(text: str) -> Iterator[str]:
    text = text.strip()
    for piece in (text, *_SEPARATOR.split(text[:_LONGEST_NAME])):
        if 0 < len(piece) <= _LONGEST_NAME:
            yield piece
