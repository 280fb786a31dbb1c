-- The C library gives freed memory back to the kernel from twice the largest block on that was ever freed, to get it
-- page by page at the next poll: a fifth of what a poll costs a server of many sessions. One block as large as their
-- activity, freed once, makes it keep what a poll needs.
SELECT pg_catalog.octet_length(pg_catalog.repeat(pg_catalog.repeat(' ', 1024), 2 * least(max_connections, 8000)))
FROM (SELECT pg_catalog.current_setting('max_connections')::int AS max_connections) AS server
WHERE pg_catalog.pg_backend_pid() = %(backend_pid)s
