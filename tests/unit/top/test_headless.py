"""What decides what is shown works, and is tested, without anything that draws."""

from __future__ import annotations

import pkgutil
import subprocess
import sys

import pytest

from pglock_inspect import top

HEADLESS = [module.name for module in pkgutil.iter_modules(top.__path__) if not module.ispkg]


@pytest.mark.parametrize("module", HEADLESS)
def test_the_headless_half_does_not_import_textual(module: str) -> None:
    code = f"import sys, pglock_inspect.top.{module}; sys.exit('textual' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
