-- Names for oids, and whether the activity of other roles is readable.
SELECT oid, rolname::text, pg_catalog.pg_has_role('pg_read_all_stats', 'USAGE')
FROM pg_catalog.pg_roles
