"""Configuration: TOML files, the environment and flags become frozen settings.

What only a file needs is imported when there is one: a check without configuration pays nothing for it.
"""

from __future__ import annotations

from pglock_inspect.config.dsn import resolve_dsn
from pglock_inspect.config.load import load_settings
from pglock_inspect.config.settings import Serving, Settings, Target

__all__ = ["Serving", "Settings", "Target", "load_settings", "resolve_dsn"]
