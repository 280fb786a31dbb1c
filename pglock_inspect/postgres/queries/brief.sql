-- A question beside the snapshots never writes and never keeps the next poll waiting; for this transaction only.
SELECT pg_catalog.set_config(name, value, true)
FROM (VALUES ('statement_timeout', '2s'),
             ('lock_timeout', '1s'),
             ('transaction_read_only', 'on')) AS setting (name, value)
