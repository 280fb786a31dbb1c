"""A PostgreSQL of one's own, with a workload that holds every kind of advisory lock."""
