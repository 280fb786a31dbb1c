"""Presenters: what a report looks like to a person, a script, a CI job. One format, one module.

Each takes reports and returns text; none knows of SQL, a connection or the clock.
"""
