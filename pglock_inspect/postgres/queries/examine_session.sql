-- What every server that speaks this protocol should know of itself and of the session that asks.
SELECT pg_catalog.version(),
       pg_catalog.quote_ident(current_user),
       pg_catalog.pg_backend_pid(),
       pg_catalog.inet_client_addr() IS NOT NULL
