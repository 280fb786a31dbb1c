"""What docs/prometheus.md and docs/scaling.md show is valid, and what they say is so."""

from __future__ import annotations

import re
import shlex
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from psycopg.conninfo import conninfo_to_dict

from pglock_inspect.config import load_settings
from pglock_inspect.config.dsn import resolve_dsn
from tests.support.command import parse
from tests.support.pages import DOCS, snippets
from tests.support.requirements import program
from tests.support.stack import DASHBOARDS

if TYPE_CHECKING:
    from collections.abc import Iterator

PAGES = ("prometheus.md", "scaling.md")
RULES = [
    rule
    for group in yaml.safe_load((DASHBOARDS / "alerts.yml").read_text())["groups"]
    for rule in group["rules"]
]
CONFIGURATIONS = [
    snippet
    for page in PAGES
    for snippet in snippets(page, "yaml")
    if snippet.startswith(("scrape_configs:", "rule_files:"))
]


@pytest.mark.parametrize("configuration", CONFIGURATIONS)
def test_prometheus_takes_every_configuration(configuration: str, tmp_path: Path) -> None:
    (tmp_path / "pglock-inspect-alerts.yml").symlink_to(DASHBOARDS / "alerts.yml")
    file = tmp_path / "prometheus.yml"
    file.write_text(configuration)
    subprocess.run([program("promtool"), "check", "config", str(file)], check=True)


def test_alertmanager_is_told_what_the_file_says(tmp_path: Path) -> None:
    (shown,) = [text for text in snippets("prometheus.md", "yaml") if "inhibit_rules" in text]
    file = tmp_path / "alertmanager.yml"
    file.write_text(shown)
    subprocess.run([program("amtool"), "check-config", str(file)], check=True)
    assert yaml.safe_load(shown) == yaml.safe_load((DASHBOARDS / "alertmanager.yml").read_text())


def test_what_holds_back_and_is_held_back_are_alerts() -> None:
    alerts = {rule["alert"] for rule in RULES}
    named = set(re.findall(r"Pglock\w+", (DASHBOARDS / "alertmanager.yml").read_text()))
    assert named <= alerts


def test_every_alert_is_in_the_table() -> None:
    rows = re.findall(r"^\| `(\w+)` \| ([\w ]+) \|", (DOCS / "prometheus.md").read_text(), re.MULTILINE)
    severity = {"{{ $labels.severity }}": "that of the finding"}
    assert rows == [
        (rule["alert"], severity.get(rule["labels"]["severity"], rule["labels"]["severity"]))
        for rule in RULES
    ]


def test_every_file_that_is_named_exists() -> None:
    for page in PAGES:
        for file in re.findall(r"\bdashboards/[\w/.]*\w", (DOCS / page).read_text()):
            assert (DASHBOARDS.parent / file).exists(), file


# --- Kubernetes ---------------------------------------------------------------------------------------


def objects() -> Iterator[dict[str, Any]]:
    for snippet in snippets("scaling.md", "yaml"):
        if snippet.startswith("apiVersion"):
            yield from yaml.safe_load_all(snippet)


KINDS = {each["kind"]: each for each in objects()}
POD = KINDS["Deployment"]["spec"]["template"]
(CONTAINER,) = POD["spec"]["containers"]


def test_the_objects_belong_together() -> None:
    labels = POD["metadata"]["labels"]
    assert KINDS["Deployment"]["spec"]["selector"]["matchLabels"] == labels
    assert KINDS["Service"]["spec"]["selector"] == labels
    assert (
        KINDS["ServiceMonitor"]["spec"]["selector"]["matchLabels"] == KINDS["Service"]["metadata"]["labels"]
    )
    (endpoint,) = KINDS["ServiceMonitor"]["spec"]["endpoints"]
    (service,) = KINDS["Service"]["spec"]["ports"]
    (port,) = CONTAINER["ports"]
    assert endpoint["port"] == service["name"]
    assert service["targetPort"] == port["name"]
    assert {f"--listen=0.0.0.0:{port['containerPort']}"} < set(CONTAINER["args"])
    volumes = {volume["name"]: volume for volume in POD["spec"]["volumes"]}
    assert volumes.keys() == {mount["name"] for mount in CONTAINER["volumeMounts"]}
    assert volumes["config"]["configMap"]["name"] == KINDS["ConfigMap"]["metadata"]["name"]
    claim = volumes["state"]["persistentVolumeClaim"]["claimName"]
    assert claim == KINDS["PersistentVolumeClaim"]["metadata"]["name"]
    (secret,) = CONTAINER["envFrom"]
    assert secret["secretRef"]["name"] == KINDS["Secret"]["metadata"]["name"]


def test_the_container_starts_the_exporter() -> None:
    parse(shlex.join(["pglock-inspect", *CONTAINER["args"]]))
    mounted = [mount["mountPath"] for mount in CONTAINER["volumeMounts"]]
    files = [Path(argument.partition("=")[2]) for argument in CONTAINER["args"] if "=/" in argument]
    assert [str(file.parent) for file in files] == mounted


def test_its_configuration_loads(tmp_path: Path) -> None:
    ((name, text),) = KINDS["ConfigMap"]["data"].items()
    file = tmp_path / name
    file.write_text(text)
    secret = KINDS["Secret"]["stringData"]
    settings = load_settings(config=file, environ={}, cwd=tmp_path)
    (target,) = settings.targets
    parameters = conninfo_to_dict(resolve_dsn(target, secret))
    assert parameters["password"] == secret["ORDERS_PASSWORD"]
    assert f"CREATE ROLE {parameters['user']} " in snippets("scaling.md", "sql")[0]


def test_the_rules_become_an_object() -> None:
    (recipe,) = [text for text in snippets("scaling.md", "sh") if "PrometheusRule" in text]
    script = recipe.replace("pglock-inspect init --print alerts", f"cat {DASHBOARDS / 'alerts.yml'}")
    script = script.replace("| kubectl apply -f -", "")
    made = yaml.safe_load(subprocess.check_output(["bash", "-c", script], text=True))
    assert made["kind"] == "PrometheusRule"
    assert made["spec"] == yaml.safe_load((DASHBOARDS / "alerts.yml").read_text())


def test_the_role_is_that_of_init() -> None:
    (shown,) = snippets("scaling.md", "sql")
    role = (DASHBOARDS.parent / "pglock_inspect" / "data" / "role.sql").read_text()
    assert [line for line in role.splitlines() if line and not line.startswith("--")] == shown.splitlines()
