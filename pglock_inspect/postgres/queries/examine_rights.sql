-- Without pg_monitor, the type of others' processes is hidden; those that have a database are taken for clients'.
SELECT pg_catalog.pg_is_in_recovery(),
       pg_catalog.pg_has_role('pg_signal_backend', 'USAGE'),
       (SELECT pg_catalog.count(*)
        FROM pg_catalog.pg_stat_activity
        WHERE datid IS NOT NULL AND coalesce(backend_type, 'client backend') = 'client backend')
