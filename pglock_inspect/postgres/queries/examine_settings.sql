-- The values of this session, and those that sessions of this role begin with in this database.
SELECT name, setting, unit, reset_val
FROM pg_catalog.pg_settings
WHERE name = ANY (%(names)s)
