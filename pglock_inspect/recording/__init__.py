"""Recordings of reports: a file of compressed lines of JSON that is whole up to wherever it is cut.

`Recorder` writes polls, `Recording` reads them at any time::

    with Recording.open(path) as recording:
        recording.poll(len(recording) - 1)              # the last poll: a report per target
        index = recording.index_at(to_instant(moment))  # the poll that showed what was so then
        index = recording.next_finding(index)           # where something new was found, or None

A file is a row of gzip members, so that ``zcat`` shows its lines: the documents of a poll, one for each
target (`present.document`). Headers, which other readers skip, tell how long a poll is and what was new in
it, so that none is decompressed to find another; and what a report knows beyond its document (`rest`).
"""

from pglock_inspect.recording.recorder import Recorder
from pglock_inspect.recording.recording import Poll, Recording

__all__ = ["Poll", "Recorder", "Recording"]
