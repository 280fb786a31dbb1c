"""The ``pglock-inspect`` command, also as ``python -m pglock_inspect``."""

from __future__ import annotations

import sys


def main() -> int:
    """Run the command line and return the exit code."""
    try:
        from pglock_inspect.cli.garbage import loading  # noqa: PLC0415

        loading()
        from pglock_inspect.cli.app import run  # noqa: PLC0415  (Ctrl-C while it loads is quiet too)

        return run(sys.argv[1:])
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
