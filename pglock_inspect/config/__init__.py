"""Configuration: TOML files, the environment and flags become frozen settings.

A file that names nothing but itself is read by `load_settings`; nothing here is imported that an
invocation without any file would not need.
"""

from __future__ import annotations

from pglock_inspect.config.dsn import resolve_dsn
from pglock_inspect.config.load import load_settings
from pglock_inspect.config.settings import Settings, Target

__all__ = ["Settings", "Target", "load_settings", "resolve_dsn"]
