"""What `dashboards/compose.yaml` starts fits together."""

from __future__ import annotations

import re
import subprocess
from typing import Any
from urllib.parse import urlsplit

import yaml
from psycopg.conninfo import conninfo_to_dict

from pglock_inspect.config import load_settings
from tests.support.requirements import program
from tests.support.stack import DASHBOARDS

COMPOSE: dict[str, Any] = yaml.safe_load((DASHBOARDS / "compose.yaml").read_text())
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
PORTS = {"exporter": 10187, "prometheus": 9090, "alertmanager": 9093, "grafana": 3000, "postgres": 5432}


def loaded(file: str) -> dict[str, Any]:
    document: dict[str, Any] = yaml.safe_load((DASHBOARDS / file).read_text())
    return document


def mounts(service: str) -> dict[str, str]:
    """Return what is mounted where, by path in the container."""
    volumes = [volume.split(":") for volume in SERVICES[service].get("volumes", [])]
    return {inside: outside for outside, inside, _ in volumes}


def test_it_has_all_that_is_needed() -> None:
    assert SERVICES.keys() == PORTS.keys() | {"worker"}


def test_images_are_of_one_version() -> None:
    for name, service in SERVICES.items():
        if name == "exporter":
            assert service["build"] == ".."
        else:
            assert re.fullmatch(r"[\w/]+:v?\d+\.\d+(\.\d+)?", service["image"])


def test_every_file_that_is_mounted_exists_and_cannot_be_written() -> None:
    for service in SERVICES.values():
        for volume in service.get("volumes", []):
            outside, _, mode = volume.split(":")
            assert (DASHBOARDS / outside).exists(), outside
            assert mode == "ro"


def test_ports_are_those_of_the_programs_and_open_to_this_host_alone() -> None:
    published = {name: service.get("ports", []) for name, service in SERVICES.items()}
    assert published == {
        name: [] if name in {"postgres", "worker"} else [f"127.0.0.1:{PORTS[name]}:{PORTS[name]}"]
        for name in SERVICES
    }


def test_what_a_service_waits_for_is_there() -> None:
    for service in SERVICES.values():
        for other, condition in service.get("depends_on", {}).items():
            assert condition == {"condition": "service_healthy"}
            assert SERVICES[other]["healthcheck"]


def test_prometheus_reads_its_configuration_and_rules() -> None:
    check = [program("promtool"), "check", "config", str(DASHBOARDS / "prometheus.yml")]
    assert "15 rules found" in subprocess.check_output(check, text=True)
    inside = {inside.removeprefix("/etc/prometheus/") for inside in mounts("prometheus")}
    assert inside == {"prometheus.yml", *loaded("prometheus.yml")["rule_files"]}


def test_alertmanager_reads_its_configuration() -> None:
    subprocess.run([program("amtool"), "check-config", DASHBOARDS / "alertmanager.yml"], check=True)


def test_who_talks_to_whom() -> None:
    prometheus = loaded("prometheus.yml")
    asked = [
        target
        for part in (*prometheus["scrape_configs"], *prometheus["alerting"]["alertmanagers"])
        for group in part["static_configs"]
        for target in group["targets"]
    ]
    (source,) = loaded("grafana/datasources/prometheus.yml")["datasources"]
    asked.append(urlsplit(source["url"]).netloc)
    assert sorted(asked) == [f"{name}:{PORTS[name]}" for name in ("alertmanager", "exporter", "prometheus")]
    assert source["jsonData"]["timeInterval"] == prometheus["global"]["scrape_interval"]


def test_the_exporter_reads_its_configuration() -> None:
    inside = SERVICES["exporter"]["environment"]["PGLOCK_CONFIG"]
    file = DASHBOARDS / mounts("exporter")[inside]
    settings = load_settings(config=file, environ={}, cwd=DASHBOARDS / "grafana")
    (target,) = settings.targets
    parameters = conninfo_to_dict(target.dsn)
    assert parameters["host"] == "postgres"
    assert parameters["dbname"] == SERVICES["postgres"]["environment"]["POSTGRES_DB"]
    (role,) = mounts("postgres").values()
    assert f"CREATE ROLE {parameters['user']} LOGIN" in (DASHBOARDS / role).read_text()
    (job,) = settings.jobs
    assert f"hashtext('{job.name}')" in SERVICES["worker"]["command"][-1]


def test_grafana_finds_the_dashboards() -> None:
    (provider,) = loaded("grafana/dashboards/pglock-inspect.yml")["providers"]
    place = provider["options"]["path"]
    shown = {inside for inside in mounts("grafana") if inside.startswith(place)}
    assert shown == {f"{place}/{path.name}" for path in DASHBOARDS.glob("*.json")}
    assert SERVICES["grafana"]["environment"]["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"] in shown
