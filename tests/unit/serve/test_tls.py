from __future__ import annotations

import os
import ssl
from typing import TYPE_CHECKING

import pytest

from pglock_inspect.errors import CannotListen
from pglock_inspect.serve.tls import Certificate
from tests.support.certificates import make_certificate

if TYPE_CHECKING:
    from pathlib import Path


def shown(certificate: Certificate) -> str:
    """The common name of the certificate that a new connection is shown."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    careless = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    careless.check_hostname, careless.verify_mode = False, ssl.CERT_NONE
    client = careless.wrap_bio(to_client, to_server)
    server = certificate.context.wrap_bio(to_server, to_client, server_side=True)
    for end in (client, server, client, server):
        try:
            end.do_handshake()
        except ssl.SSLWantReadError:
            continue
    der = client.getpeercert(binary_form=True)
    assert der
    return next(name for name in ("first", "second") if name.encode() in der)


def put(directory: Path, name: str, *, at: int) -> None:
    """Put a certificate where the exporter looks for it, as of that second."""
    made = make_certificate(directory, name)
    certificate = directory / "exporter.pem"
    certificate.write_bytes(made.read_bytes())
    os.utime(certificate, (at, at))


def test_a_renewed_certificate_is_shown(tmp_path: Path) -> None:
    put(tmp_path, "first", at=1)
    certificate = Certificate(tmp_path / "exporter.pem")
    certificate.renew()
    assert shown(certificate) == "first"
    put(tmp_path, "second", at=2)
    assert shown(certificate) == "first"
    certificate.renew()
    assert shown(certificate) == "second"


def test_the_old_one_is_shown_until_the_new_one_can_be(tmp_path: Path) -> None:
    put(tmp_path, "first", at=1)
    certificate = Certificate(tmp_path / "exporter.pem")
    (tmp_path / "exporter.pem").write_text("half of it")
    for _ in range(2):
        with pytest.raises(CannotListen, match="are no certificate with its key in PEM"):
            certificate.renew()
        assert shown(certificate) == "first"
    (tmp_path / "exporter.pem").unlink()
    certificate.renew()
    assert shown(certificate) == "first"
    put(tmp_path, "second", at=3)
    certificate.renew()
    assert shown(certificate) == "second"


def test_nobody_is_asked_for_the_password_of_a_key(tmp_path: Path) -> None:
    made = make_certificate(tmp_path, "first", password="secret")
    with pytest.raises(CannotListen, match="not encrypted"):
        Certificate(made)
