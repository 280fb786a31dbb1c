-- Prepared transactions, from the function: the view joins catalogs.
SELECT transaction::text, gid, prepared, ownerid, dbid
FROM pg_catalog.pg_prepared_xact()
