-- The application_name that a pooler took from our login would stay on its session for clients that give none.
SELECT pg_catalog.set_config('application_name', '', false)
WHERE pg_catalog.pg_backend_pid() <> %(backend_pid)s
