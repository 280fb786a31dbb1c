"""The Grafana dashboards, as code: `python -m dashboards` writes them as JSON beside it."""
