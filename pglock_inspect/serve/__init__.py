"""The exporter: a thread per target that polls, and a web server that shows what came of the last poll.

No request ever reaches a database, or waits for one.
"""
