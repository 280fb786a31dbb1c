"""A PostgreSQL of one's own on loopback, gone without a trace however its launcher ends.

A small shell process, the reaper, makes the server's directory and reads a pipe. When the launcher closes the
pipe or is gone, be it by SIGKILL, the reaper ends what was started and removes the directory.
"""

from __future__ import annotations

import os
import pwd
import random
import signal
import socket
import subprocess
import time
from pathlib import Path
from typing import IO, TYPE_CHECKING, Literal, Self

from psycopg.conninfo import make_conninfo

from pglock_inspect.demo.programs import copy_programs, find_bindir
from pglock_inspect.errors import ServerUnavailable

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import TracebackType

StopMode = Literal["smart", "fast", "immediate"]
_SIGNALS = {"smart": signal.SIGTERM, "fast": signal.SIGINT, "immediate": signal.SIGQUIT}
_PATIENCE = 60.0  # seconds, for a start or a stop

# A line read is the pid of what runs now, or empty. A server that ends by itself removes its pid file; a
# killed one leaves a System V segment, whose id is in that file.
_REAPER = """
trap '' HUP INT TERM PIPE
directory=$(mktemp -d "$1/pglock-inspect-XXXXXX") || exit
echo "$directory"
pid_file=$directory/data/postmaster.pid
while read -r line; do pid=$line; done
if [ -n "$pid" ]; then
    kill -QUIT "$pid"
    for _ in $(seq 100); do [ -e "$pid_file" ] && kill -0 "$pid" || break; sleep 0.1; done
    kill -KILL "$pid"
fi
segment=$(awk 'NR == 7 { print $2 }' "$pid_file") && [ -n "$segment" ] && ipcrm -m "$segment"
for _ in $(seq 100); do rm -rf "$directory" && break; sleep 0.1; done
"""

# A child tells the reaper its pid before it becomes the program, so that it never runs unknown.
_ANNOUNCED = 'echo $$ && exec "$@" >&2'

# Below the ports of outgoing connections, so that a stopped server's port is still free at its next start.
_PORTS = range(20_000, 32_000)


class TemporaryServer:
    """A context manager: a new cluster with the superuser `postgres`, running inside the `with` block.

        with TemporaryServer(settings={"max_prepared_transactions": 10}) as server:
            psycopg.connect(server.dsn())

    `settings` go to postgresql.conf. Everybody is trusted, unless `password` is that of `postgres`: then each
    login needs one (SCRAM). Without `tcp` the socket in `directory` is the only way in, closed to other users
    of the machine. As root, the server runs as `nobody`. Raises ServerUnavailable where it does not start.
    """

    directory: Path
    logfile: Path
    port: int

    def __init__(
        self,
        *,
        bindir: Path | None = None,
        settings: Mapping[str, str | int] | None = None,
        encoding: str = "UTF8",
        password: str | None = None,
        tcp: bool = True,
    ) -> None:
        self.bindir = bindir or find_bindir()
        self.settings = dict(settings or {})
        self.encoding = encoding
        self.password = password
        self.tcp = tcp
        self._user = pwd.getpwnam("nobody") if os.geteuid() == 0 else None
        self._primary: TemporaryServer | None = None
        self._child: subprocess.Popen[bytes] | None = None
        self._killed = False

    def __enter__(self) -> Self:
        # As root in /tmp, since a TMPDIR of root's own may be closed to others.
        place = "/tmp" if self._user else os.environ.get("TMPDIR", "/tmp")  # noqa: S108
        pipe = subprocess.PIPE
        self._reaper = self._popen("/bin/sh", "-c", _REAPER, "reaper", place, stdin=pipe, stdout=pipe)
        try:
            self._take_directory(place)
            self._make_programs_readable()
            self._create()
            self.start()
        except BaseException:
            self._close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._close()

    @property
    def pid(self) -> int:
        """The postmaster's."""
        assert self._child, "the server is stopped"
        return self._child.pid

    def dsn(self, **parameters: str | int) -> str:
        """Return a connection string: of `postgres` in `postgres`, unless libpq's parameters change that."""
        own = make_conninfo(
            host="127.0.0.1" if self.tcp else str(self.directory),
            port=self.port,
            user="postgres",
            dbname="postgres",
            password=None if "user" in parameters else self.password,
        )
        return make_conninfo(own, **parameters)

    def start(self) -> None:
        """Start it, and return once it takes connections; on the same port as before, with the same data."""
        # Sessions of a killed server may outlive it for a moment, and bar the next one.
        give_up = time.monotonic() + (_PATIENCE if self._killed else 0)
        while not self._try_start():
            if time.monotonic() >= give_up:
                raise ServerUnavailable(f"PostgreSQL did not start: {self._last_words()}")
            time.sleep(0.1)
        self._killed = False

    def stop(self, mode: StopMode = "fast") -> None:
        """Stop it as `pg_ctl stop -m MODE` does; its data stays."""
        self._end(_SIGNALS[mode])

    def kill(self) -> None:
        """SIGKILL to the postmaster, as the kernel does when memory is short."""
        self._end(signal.SIGKILL)
        self._killed = True

    def restart(self, mode: StopMode = "fast") -> None:
        """Stop it and start it."""
        self.stop(mode)
        self.start()

    def standby(self) -> TemporaryServer:
        """Return a context manager for a hot standby; to be copied, this server restarts once.

        `SELECT pg_promote()` makes the standby a primary.
        """
        standby = TemporaryServer(bindir=self.bindir, password=self.password, tcp=self.tcp)
        standby._primary = self
        return standby

    def _take_directory(self, place: str) -> None:
        assert self._reaper.stdout
        directory = self._reaper.stdout.readline().decode().rstrip("\n")
        if not directory:
            raise ServerUnavailable(f"No directory for PostgreSQL can be made in {place}")
        self.directory = Path(directory)
        self.logfile = self.directory / "log"
        self.port = _free_port()

    def _create(self) -> None:
        settings: dict[str, str | int] = {
            "listen_addresses": "127.0.0.1" if self.tcp else "",
            "port": self.port,
            "unix_socket_directories": str(self.directory),
            "fsync": "off",
            "full_page_writes": "off",
            "dynamic_shared_memory_type": "mmap",  # in the data directory, so that it goes with it
        }
        data = self.directory / "data"
        if self._primary:
            self._primary.stop()
            self._run("cp", "-Rp", str(self._primary.directory / "data"), str(data))
            self._primary.start()
            (data / "standby.signal").touch()
            settings["primary_conninfo"] = self._primary.dsn(application_name="standby")
        else:
            options = ["--username=postgres", f"--encoding={self.encoding}", "--no-locale", "--no-sync"]
            if self.password:
                secret = self.directory / "password"
                secret.write_text(self.password, "utf-8")
                self._give_away(secret)
                options += ["--auth=scram-sha-256", f"--pwfile={secret}"]
            else:
                options += ["--auth=trust"]
            self._run(str(self.bindir / "initdb"), "-D", str(data), *options)
        with (data / "postgresql.conf").open("a", encoding="utf-8") as conf:
            for name, value in (settings | self.settings).items():
                quoted = str(value).replace("'", "''")
                conf.write(f"{name} = '{quoted}'\n")

    def _try_start(self) -> bool:
        data = self.directory / "data"
        postmaster = self._spawn(str(self.bindir / "postgres"), "-D", str(data))
        deadline = time.monotonic() + _PATIENCE
        while postmaster.poll() is None:
            if _state(data) == (str(postmaster.pid), "ready"):
                return True
            if time.monotonic() > deadline:
                break
            time.sleep(0.01)
        self._end(signal.SIGKILL)
        return False

    def _spawn(self, *command: str) -> subprocess.Popen[bytes]:
        with self.logfile.open("ab") as log:
            announced = ("/bin/sh", "-c", _ANNOUNCED, "sh", *command)
            self._child = self._popen(*announced, stdout=self._reaper.stdin, stderr=log)
        return self._child

    def _run(self, *command: str) -> None:
        status = self._spawn(*command).wait()
        self._end(signal.SIGKILL)
        if status:
            raise ServerUnavailable(f"{Path(command[0]).name} failed: {self._last_words()}")

    def _end(self, how: signal.Signals) -> None:
        """End what runs, wait for it, and tell the reaper so."""
        if not self._child:
            return
        self._child.send_signal(how)
        try:
            self._child.wait(_PATIENCE)
        except subprocess.TimeoutExpired:
            raise ServerUnavailable(
                f"PostgreSQL did not stop within {_PATIENCE:.0f} seconds of {how.name}"
            ) from None
        self._child = None
        assert self._reaper.stdin
        self._reaper.stdin.write(b"\n")
        self._reaper.stdin.flush()

    def _close(self) -> None:
        try:
            self._end(signal.SIGQUIT)
        finally:
            self._reaper.communicate()

    def _popen(
        self,
        *command: str,
        stdin: int = subprocess.DEVNULL,
        stdout: int | IO[bytes] | None = subprocess.DEVNULL,
        stderr: int | IO[bytes] = subprocess.DEVNULL,
    ) -> subprocess.Popen[bytes]:
        return subprocess.Popen(  # noqa: S603
            command,
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            cwd="/",
            env={"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C"},
            user=self._user and self._user.pw_uid,
            group=self._user and self._user.pw_gid,
            extra_groups=[] if self._user else None,
            start_new_session=True,  # so that Ctrl-C in a terminal is the launcher's alone
        )

    def _make_programs_readable(self) -> None:
        """Copy the programs where the server's user cannot reach them, as below a closed home directory."""
        try:
            self._popen(str(self.bindir / "initdb"), "--version").wait()
        except PermissionError:
            programs = self.directory / "programs"
            self.bindir = copy_programs(self.bindir, programs)
            for path in (programs, *programs.rglob("*")):
                self._give_away(path)

    def _give_away(self, path: Path) -> None:
        """Make it the server's user's."""
        if self._user:
            os.chown(path, self._user.pw_uid, self._user.pw_gid, follow_symlinks=False)

    def _last_words(self) -> str:
        lines = self.logfile.read_text("utf-8", "replace").splitlines() or ["it said nothing"]
        text = "; ".join(line.partition("] ")[2] or line for line in lines[-2:])
        return "".join(char if char.isprintable() else " " for char in text)


def _free_port() -> int:
    while True:
        port = random.choice(_PORTS)  # noqa: S311
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port


def _state(data: Path) -> tuple[str, str]:
    """Read the pid and the status from the server's pid file."""
    try:
        lines = (data / "postmaster.pid").read_text("utf-8").splitlines()
        return lines[0], lines[7].strip()
    except (OSError, IndexError):
        return "", ""
