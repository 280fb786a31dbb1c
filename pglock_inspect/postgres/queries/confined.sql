-- No code of the database's users is run: names mean PostgreSQL's own, and a table with policies is refused.
SELECT pg_catalog.set_config(name, value, true)
FROM (VALUES ('search_path', 'pg_catalog, pg_temp'),
             ('row_security', 'off')) AS setting (name, value)
