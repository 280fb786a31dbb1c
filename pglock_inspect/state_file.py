"""The file that carries what was observed from one process to the next."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

from pglock_inspect.errors import BadStateFile
from pglock_inspect.files import replace_file
from pglock_inspect.state import State

if TYPE_CHECKING:
    from collections.abc import Mapping

_BOOT = Path("/proc/sys/kernel/random/boot_id")
_OURS = b'{"file":"pglock-inspect state'


class _Contents(Struct, frozen=True, tag_field="file", tag="pglock-inspect state 1"):
    """``boot`` names the run of the system in which the monotonic clock of the states goes on."""

    boot: str | None
    states: dict[str, State]


class StateFile:
    """The states of servers, by target. ``problem`` is a sentence, where nothing could be carried over."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._states: dict[str, State] = {}
        self.problem: str | None = None

    def load(self) -> Mapping[str, State]:
        """Return what an earlier process left; nothing where there is no file yet.

        Raises `BadStateFile` for a file that cannot be read, or that holds something else, which `save`
        would destroy.
        """
        content = self._read()
        if content and not content.startswith(_OURS):
            raise BadStateFile(f"{self._path} is no state file of pglock-inspect: name another, or remove it")
        if content:
            self._states = self._decode(content)
        return self._states

    def save(self, states: Mapping[str, State]) -> None:
        """Leave states for a later process, beside those of other targets. Raises `BadStateFile`."""
        self._states |= states
        try:
            replace_file(self._path, msgspec.json.encode(_Contents(_boot(), self._states)))
        except OSError as error:
            raise BadStateFile(
                f"{self._path} cannot be written ({error.strerror}): name a file where this user may write"
            ) from None

    def _read(self) -> bytes:
        try:
            if self._path.exists() and not self._path.is_file():
                raise BadStateFile(f"{self._path} is not a file: name one that may be written")
            return self._path.read_bytes()
        except FileNotFoundError:
            return b""
        except OSError as error:
            raise BadStateFile(
                f"{self._path} cannot be read ({error.strerror}): let this user read it, or name another file"
            ) from None

    def _decode(self, content: bytes) -> dict[str, State]:
        try:
            contents = msgspec.json.decode(content, type=_Contents)
        except (msgspec.DecodeError, UnicodeDecodeError):
            self.problem = f"{self._path} is damaged or of another version: observing begins anew"
            return {}
        if contents.boot is not None and contents.boot == _boot():
            return contents.states
        return {target: state.without_clock() for target, state in contents.states.items()}


def _boot() -> str | None:
    """Return the name of this run of the system; None where it has none, and no clock is sure to go on."""
    try:
        return _BOOT.read_text("ascii")
    except OSError:
        return None
