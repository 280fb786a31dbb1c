"""Recordings of reports: a file of compressed lines of JSON that is whole up to wherever it is cut.

`Recorder` writes polls, `Recording` reads them at any time::

    with Recording.open(path) as recording:
        recording.poll(len(recording) - 1)              # the last poll: a report per target
        index = recording.index_at(to_instant(moment))  # the poll that showed what was so then
        index = recording.next_finding(index)           # where something new was found, or None

A file is a row of gzip members, so that ``zcat`` shows its lines: one that says what it is, then one for each
poll (`line`). The header of a member tells its size and what it is about (`member`), so that nothing is
decompressed to find a poll, and no file is read whole.
"""

from pglock_inspect.recording.recorder import Recorder
from pglock_inspect.recording.recording import Poll, Recording

__all__ = ["Poll", "Recorder", "Recording"]
