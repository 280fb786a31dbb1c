"""Certificates for servers on this machine."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

from tests.support.requirements import program

if TYPE_CHECKING:
    from pathlib import Path


def make_certificate(directory: Path, name: str, *, password: str | None = None) -> Path:
    """A certificate of its own for 127.0.0.1 and its key, in one file; without the key in `.pem.crt`."""
    path, alone = directory / f"{name}.pem", directory / f"{name}.pem.crt"
    command = [program("openssl"), "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"]
    command += ["-nodes"] if password is None else ["-passout", f"pass:{password}"]
    command += ["-subj", f"/CN={name}", "-addext", "subjectAltName=IP:127.0.0.1", "-days", "2"]
    subprocess.run([*command, "-keyout", path, "-out", alone], check=True, capture_output=True)
    path.write_bytes(path.read_bytes() + alone.read_bytes())
    return path
