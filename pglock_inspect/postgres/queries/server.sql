-- What a connection learns once. pg_monitor and superusers have pg_read_all_stats.
SELECT pg_catalog.current_setting('server_version'),
       pg_catalog.current_setting('server_version_num')::int,
       pg_catalog.current_database()::text,
       current_user::text,
       pg_catalog.pg_backend_pid(),
       pg_catalog.pg_postmaster_start_time(),
       pg_catalog.current_setting('max_connections')::int,
       pg_catalog.current_setting('max_locks_per_transaction')::int,
       pg_catalog.current_setting('max_prepared_transactions')::int
