"""The learner: keeps the name book up to date with what is heard and found on a server."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pglock_inspect.names.book import NameBook
from pglock_inspect.names.configured import ConfiguredNames
from pglock_inspect.names.known import KnownNames
from pglock_inspect.names.learned import LearnedNames, ToldNames, name_of, recognise
from pglock_inspect.names.words import said, words_of_application, words_of_statement
from pglock_inspect.schemes import codec_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pglock_inspect.model import HoldGroup, Job, Name, NameSource, Session, Snapshot
    from pglock_inspect.names.traces import Traces
    from pglock_inspect.names.words import Words

Form = tuple[int, int]
"""Where a key has one name: the oid of its database, and its form (``objsubid``)."""

_MOST_NAMES = 10_000
_EFFORT = 3_000  # per poll, in words that are hashed; what is left over has its turn in the next one


class Learner:
    """Learns names for keys that have none, or that only known software names.

    ``book`` stays the same object as long as nothing new is known. ``scheme`` is the one to try first.
    """

    def __init__(self, jobs: Sequence[Job] = (), scheme: str = "hashtext") -> None:
        self._jobs, self._scheme = jobs, scheme
        self._configured = ConfiguredNames(jobs)
        self._learned = LearnedNames()
        self._texts: tuple[str, ...] = ()
        self._told = ToldNames()
        self._known = KnownNames(jobs=jobs)
        self._seen: dict[tuple[object, ...], tuple[frozenset[int], Session]] = {}
        self._bind()

    def listen(self, snapshot: Snapshot, groups: Sequence[HoldGroup]) -> None:
        """Learn from what the sessions of ``groups`` have said since they were last listened to."""
        before, self._seen = self._seen, {}
        effort = _EFFORT
        heard: dict[Form, dict[int, Name]] = {}
        words_of: dict[int, list[tuple[Words, NameSource]]] = {}
        for group in groups:
            session, rows = group.session, group.rows
            if session is None:
                continue
            process = rows.pid, rows.database, rows.objsubid, rows.mode, rows.granted
            seen = before.get(process)
            if seen and seen[0] is rows.keys and (seen[1] is session or said(seen[1]) == said(session)):
                self._seen[process] = seen
                continue
            wanted = self._wanted(group)
            if not wanted or effort <= 0:
                continue
            self._seen[process] = rows.keys, session
            database = snapshot.databases.get(rows.database)
            codec = codec_of(database.encoding) if database else "utf-8"
            if session.pid not in words_of:
                effort -= len(session.query or "") // 100
                words_of[session.pid] = [*_words_of(session)]
            for words, source in words_of[session.pid]:
                effort -= 1 + len(words.texts)
                found = recognise(words, wanted, rows.objsubid, codec, self._scheme)
                for key, (text, scheme) in found.items():
                    name = name_of(text, scheme, source, database, self._jobs)
                    heard.setdefault((rows.database, rows.objsubid), {}).setdefault(key, name)
                wanted -= found.keys()
                if not wanted:
                    break
        if heard:
            self._learn(heard, groups)

    def told(self, texts: tuple[str, ...]) -> None:
        """Take the names that ``names_query`` returned."""
        if texts != self._texts:
            self._texts = texts
            self._told = ToldNames(texts, self._jobs, self._scheme)
            self._bind()

    def found(self, traces: Traces | None, names: Mapping[Form, Mapping[int, Name]]) -> None:
        """Take what was found in a database: traces of known software, and names of its locks."""
        if (traces, names) != (self._known.traces, self._known.rows):
            self._known = KnownNames(traces, names, self._jobs)
            self._bind()

    def _bind(self) -> None:
        self.book = NameBook(self._configured, self._learned, self._told, self._known)

    def _wanted(self, group: HoldGroup) -> frozenset[int]:
        """Return the keys that a session's word could name."""
        nameless = [s.keys for s in group.subjects if s.name is None or s.name.source == "known"]
        return nameless[0] if len(nameless) == 1 else frozenset[int]().union(*nameless)

    def _learn(self, heard: Mapping[Form, Mapping[int, Name]], groups: Sequence[HoldGroup]) -> None:
        names = dict(self._learned.names)
        for form, new in heard.items():
            names[form] = {**names.get(form, {}), **new}
        if sum(map(len, names.values())) > _MOST_NAMES:
            names = _still_seen(names, groups)
        self._learned = LearnedNames(names)
        self._bind()


def _words_of(session: Session) -> Iterator[tuple[Words, NameSource]]:
    if session.query:
        yield words_of_statement(session.query), "query"
    if session.application_name:
        yield words_of_application(session.application_name), "application_name"


def _still_seen(
    names: Mapping[Form, Mapping[int, Name]], groups: Sequence[HoldGroup]
) -> dict[Form, Mapping[int, Name]]:
    seen: dict[Form, set[int]] = {}
    for group in groups:
        form = group.rows.database, group.rows.objsubid
        if form in names:
            seen.setdefault(form, set()).update(group.keys & names[form].keys())
    return {form: {key: names[form][key] for key in keys} for form, keys in seen.items()}
