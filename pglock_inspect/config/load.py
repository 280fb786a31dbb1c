"""From files to settings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pglock_inspect.config.files import find_sources
from pglock_inspect.config.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


def load_settings(*, config: Path | None, environ: Mapping[str, str], cwd: Path) -> Settings:
    """Return what the files say that there are: the user's own, and the project's in ``cwd``.

    ``config`` is the file given by ``--config``. What the user's own file says goes before what the
    project's says. Raises `ConfigError`.
    """
    settings = Settings()
    if sources := find_sources(config, environ, cwd):
        from pglock_inspect.config.apply import apply  # noqa: PLC0415  (most invocations read no file)

        for source in reversed(sources):
            try:
                settings = apply(source, settings)
            except RecursionError:
                raise source.place.problem("holds values nested too deep: write them flat") from None
    return settings
