-- Names for oids; read seldom, since pg_database cannot be locked while the lock table is full.
SELECT oid, datname::text, pg_catalog.pg_encoding_to_char(encoding)::text
FROM pg_catalog.pg_database
