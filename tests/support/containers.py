"""Containers, as a person runs them: by the docker command."""

from __future__ import annotations

import json
import subprocess
import time
from typing import TYPE_CHECKING, Any, NamedTuple, Self
from urllib.request import urlopen

if TYPE_CHECKING:
    from types import TracebackType


class Stopped(NamedTuple):
    """How a container ended; ``seconds`` is what `docker stop` took."""

    code: int
    seconds: float


def docker(*arguments: str, code: int = 0) -> str:
    """What a docker command printed, and what it said on stderr, after checking its exit code."""
    ended = subprocess.run(
        ["docker", *arguments], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    assert ended.returncode == code, f"docker {' '.join(arguments)}: {ended.returncode}: {ended.stdout}"
    return ended.stdout


def inspect(what: str) -> Any:  # noqa: ANN401
    """All that Docker knows of an image or a container."""
    (known,) = json.loads(docker("inspect", what))
    return known


class Container:
    """A context manager: a container in the background; `arguments` are those of `docker run`."""

    def __init__(self, *arguments: str) -> None:
        self._arguments = arguments

    def __enter__(self) -> Self:
        self.id = docker("run", "--detach", *self._arguments).strip()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        docker("rm", "--force", "--volumes", self.id)

    @property
    def health(self) -> str:
        """`starting`, `healthy` or `unhealthy`."""
        return str(inspect(self.id)["State"]["Health"]["Status"])

    @property
    def said(self) -> str:
        """What there is on stdout and stderr so far."""
        return docker("logs", self.id)

    def exec(self, *command: str, code: int = 0) -> str:
        return docker("exec", self.id, *command, code=code)

    def get(self, port: int, path: str) -> str:
        """What is answered with 200 at a port that is published."""
        address = docker("port", self.id, f"{port}/tcp").splitlines()[0]
        with urlopen(f"http://{address}{path}", timeout=60) as answer:
            return str(answer.read(), "utf-8")

    def stop(self) -> Stopped:
        began = time.monotonic()
        docker("stop", self.id)
        seconds = time.monotonic() - began
        return Stopped(inspect(self.id)["State"]["ExitCode"], seconds)
