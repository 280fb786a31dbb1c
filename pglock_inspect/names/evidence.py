"""What speaks for a claim of known software besides the key: traces in a database, an application's name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pglock_inspect.model import Name, Session
    from pglock_inspect.names.catalogue import Claim
    from pglock_inspect.names.traces import Relation, Traces

_APPLICATION = "application "


class Evidence:
    """Decides between claims to one key. ``traces`` is None where the database cannot be looked into."""

    def __init__(self, traces: Traces | None, session: Session | None) -> None:
        self._looked = traces is not None
        self._present: Mapping[str, tuple[Relation, ...]] = traces.present if traces else {}
        self._application = ((session and session.application_name) or "").lower()
        self._decided: dict[int, Name | None] = {}

    def name_of(self, claimed: tuple[Claim, ...]) -> Name | None:
        """Return the name that the claims give; the same object for the same claims."""
        if id(claimed) not in self._decided:
            self._decided[id(claimed)] = self._decide(claimed)
        return self._decided[id(claimed)]

    def _decide(self, claimed: tuple[Claim, ...]) -> Name | None:
        shown = [claim for claim in claimed if self._shows(claim)]
        # A product that would leave traces and has left none gives way to one that leaves none.
        traceless = [claim for claim in claimed if self._looked and not claim.software.evidence]
        able = shown or traceless or [claim for claim in claimed if claim.confidence != "low"]
        if not able:
            return None
        texts = dict.fromkeys(claim.lock.name for claim in able)
        sure = len(texts) == 1 and able[0].confidence in (("high", "medium") if shown else ("high",))
        names = [claim.named(maybe=not sure, shown=bool(shown)) for claim in able]
        if len(texts) == 1:
            return names[0]
        return replace(
            names[0],
            text=" or ".join(texts),
            product=" or ".join(dict.fromkeys(claim.software.product for claim in able)),
            long_lived=all(name.long_lived for name in names),
        )

    def _shows(self, claim: Claim) -> bool:
        """Whether a word in the application's name, or all that the database should have, is there."""
        traces = []
        for item in claim.software.evidence:
            if isinstance(item, str) and item.startswith(_APPLICATION):
                if item.removeprefix(_APPLICATION) in self._application:
                    return True
            else:
                traces.append((item,) if isinstance(item, str) else item)
        return bool(traces) and all(any(one in self._present for one in either) for either in traces)
