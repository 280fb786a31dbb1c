"""pglock-inspect: which job holds which PostgreSQL advisory lock, since when, and what to do about it."""

__version__ = "0.1.0"
