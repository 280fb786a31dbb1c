"""The dashboards as Grafana loads them."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.cog.plugins import register_default_plugins
from grafana_foundation_sdk.models.dashboard import Dashboard

from dashboards.__main__ import HERE, rendered

if TYPE_CHECKING:
    from collections.abc import Iterator

FILES = sorted(path.name for path in HERE.glob("*.json"))
register_default_plugins()


def loaded(file: str) -> dict[str, Any]:
    document: dict[str, Any] = json.loads((HERE / file).read_text())
    return document


def panels(file: str) -> list[dict[str, Any]]:
    return [panel for panel in loaded(file)["panels"] if panel["type"] != "row"]


def keys(value: object, path: str = "") -> Iterator[str]:
    """Yield the path of every key below a value."""
    if isinstance(value, dict):
        for key, below in value.items():
            yield f"{path}.{key}"
            yield from keys(below, f"{path}.{key}")
    elif isinstance(value, list):
        for below in value:
            yield from keys(below, f"{path}[]")


def test_they_are_what_the_code_makes() -> None:
    made = rendered()
    assert sorted(path.name for path in made) == FILES
    for path, text in made.items():
        assert path.read_text() == text, f"run `python -m dashboards`: {path.name} is not up to date"


@pytest.mark.parametrize("file", FILES)
def test_grafana_knows_every_key(file: str) -> None:
    document = loaded(file)
    understood = json.loads(JSONEncoder().encode(Dashboard.from_json(document)))
    assert set(keys(document)) <= set(keys(understood))


def test_a_misspelt_key_would_be_found() -> None:
    document = loaded("job.json")
    document["panels"][0]["fieldConfig"]["defaults"]["noVale"] = "None"
    understood = json.loads(JSONEncoder().encode(Dashboard.from_json(document)))
    assert set(keys(document)) - set(keys(understood)) == {".panels[].fieldConfig.defaults.noVale"}


@pytest.mark.parametrize("file", FILES)
def test_every_panel_says_what_it_is(file: str) -> None:
    for panel in panels(file):
        assert panel["title"]
        assert panel["description"]
        assert panel["fieldConfig"]["defaults"]["noValue"]
        assert all(query["datasource"]["uid"] == "${datasource}" for query in panel["targets"])
        if panel["type"] == "timeseries":
            assert panel["fieldConfig"]["defaults"]["unit"]
            assert all(query["legendFormat"] for query in panel["targets"])


@pytest.mark.parametrize("file", FILES)
def test_panels_fill_the_grid_without_overlap(file: str) -> None:
    taken: set[tuple[int, int]] = set()
    for panel in loaded(file)["panels"]:
        place = panel["gridPos"]
        cells = {(place["x"] + x, place["y"] + y) for x in range(place["w"]) for y in range(place["h"])}
        assert not cells & taken
        taken |= cells
    lines = {y for _, y in taken}
    assert len(taken) == 24 * len(lines) == 24 * (max(lines) + 1)


def test_each_panel_has_a_number_of_its_own() -> None:
    for file in FILES:
        numbers = [panel["id"] for panel in loaded(file)["panels"]]
        assert len(set(numbers)) == len(numbers)


def test_links_lead_from_each_to_the_other() -> None:
    uids = {file: loaded(file)["uid"] for file in FILES}
    for file in FILES:
        linked = set(re.findall(r'"url": "/d/([\w-]+)\?', (HERE / file).read_text()))
        assert linked == {uid for other, uid in uids.items() if other != file}


@pytest.mark.parametrize("file", FILES)
def test_every_variable_is_used(file: str) -> None:
    document = loaded(file)
    names = [variable["name"] for variable in document["templating"]["list"]]
    assert names == ["datasource", "target", "database", "job"]
    asked = " ".join(query["expr"] for panel in panels(file) for query in panel["targets"])
    assert set(re.findall(r"\$([a-z]\w*)", asked)) == {"target", "database", "job"}
