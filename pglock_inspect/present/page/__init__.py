"""The status page: the latest reports as one HTML document, and the files that go with it."""

from pglock_inspect.present.page.assets import ASSETS, CONTENT_SECURITY_POLICY
from pglock_inspect.present.page.render import render

__all__ = ["ASSETS", "CONTENT_SECURITY_POLICY", "render"]
