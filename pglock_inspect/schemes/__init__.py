"""Schemes: the rules by which software makes an advisory-lock key from a name.

``key_of("send_daily_digest")`` is the key of ``pg_advisory_lock(hashtext('send_daily_digest'))``. Most
programs hash a name in one of the ways listed in `SCHEMES`; adding a way is adding one entry there.
"""

from __future__ import annotations

from pglock_inspect.schemes.encodings import codec_of
from pglock_inspect.schemes.pairs import pair_name
from pglock_inspect.schemes.registry import SCHEMES, key_of, scheme_named
from pglock_inspect.schemes.scheme import Scheme

__all__ = ["SCHEMES", "Scheme", "codec_of", "key_of", "pair_name", "scheme_named"]
