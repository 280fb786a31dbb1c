-- A question beside the snapshots never writes and never keeps the next poll waiting. Where it is our own, no code of
-- the database's users is run: names mean PostgreSQL's own, and a table with policies is refused.
-- All for this transaction only.
SELECT pg_catalog.set_config(name, value, true)
FROM (VALUES ('statement_timeout', '2s', false),
             ('lock_timeout', '1s', false),
             ('transaction_read_only', 'on', false),
             ('search_path', 'pg_catalog, pg_temp', true),
             ('row_security', 'off', true)) AS setting (name, value, confines)
WHERE NOT confines OR %s
