from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pglock_inspect.demo.server import TemporaryServer
from tests.docs.stage import Stage
from tests.support.servers import SETTINGS, bindir

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="package")
def whole_stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    with TemporaryServer(bindir=bindir(), settings=SETTINGS) as server:
        stage = Stage(server, tmp_path_factory.mktemp("stage"))
        yield stage
        stage.leave()


@pytest.fixture
def stage(whole_stage: Stage) -> Stage:
    whole_stage.play()
    return whole_stage
