-- A role for watching advisory locks. As a superuser, once per cluster:
--
--     psql -f pglock-inspect-role.sql
--     psql -c '\password pglock_inspect'      (or let pg_hba.conf decide without one)
--
-- Then connect with: postgresql://pglock_inspect@HOST/DATABASE

-- The exporter holds one connection to a server. The other is for a check; raise it for people who use the role.
CREATE ROLE pglock_inspect LOGIN CONNECTION LIMIT 2;

-- Shows other users' state, statements and transactions. Without it locks, waiters and blockers still show,
-- but not for how long most of them have been held.
GRANT pg_monitor TO pglock_inspect;

-- Only for `pglock-inspect kill`: lets it end sessions and cancel statements of everybody but superusers.
-- GRANT pg_signal_backend TO pglock_inspect;

-- Only for `names_query` and `read_tables`: the tables that they read.
-- GRANT SELECT ON scheduled_jobs TO pglock_inspect;
