"""The certificate that the web server shows."""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING

from pglock_inspect.errors import CannotListen

if TYPE_CHECKING:
    from pathlib import Path


class Certificate:
    """A certificate and its key, both in PEM. ``context`` is for the web server.

    Raises `CannotListen` where they cannot be used.
    """

    def __init__(self, certificate: Path, key: Path | None = None) -> None:
        self._files = (certificate, key or certificate)
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._load()
        self._read_at = self._changed_at()

    def renew(self) -> None:
        """Show new connections what is in the files now, if they have changed.

        Raises `CannotListen`; the old ones are shown on.
        """
        changed_at = self._changed_at()
        if changed_at != self._read_at:
            self._load()
            self._read_at = changed_at

    def _load(self) -> None:
        certificate, key = self._files
        try:
            for context in (ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), self.context):  # one to try it on
                context.load_cert_chain(certificate, key, password=_no_password)
        except ssl.SSLError as error:
            raise CannotListen(
                f"{certificate} and {key} are no certificate with its key in PEM, "
                f"not encrypted ({error.reason or 'SSL'}): correct --tls-cert and --tls-key"
            ) from None
        except OSError as error:
            raise CannotListen(
                f"the certificate cannot be read ({error.strerror}): correct --tls-cert {certificate} "
                f"and --tls-key {key}"
            ) from None

    def _changed_at(self) -> tuple[int, ...]:
        try:
            return tuple(file.stat().st_mtime_ns for file in self._files)
        except OSError:  # between two versions
            return self._read_at


def _no_password() -> str:
    return ""  # else OpenSSL would ask for one on the terminal
