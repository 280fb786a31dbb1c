"""Write each dashboard as the JSON that Grafana loads."""

from __future__ import annotations

from pathlib import Path

from grafana_foundation_sdk.cog.encoder import JSONEncoder

from dashboards import job, overview

HERE = Path(__file__).parent


def rendered() -> dict[Path, str]:
    """Return the text of each file."""
    encoder = JSONEncoder(indent=2, sort_keys=True)
    made = {"overview.json": overview.dashboard(), "job.json": job.dashboard()}
    return {HERE / name: encoder.encode(dashboard) + "\n" for name, dashboard in made.items()}


if __name__ == "__main__":
    for path, text in rendered().items():
        path.write_text(text, encoding="utf-8")
