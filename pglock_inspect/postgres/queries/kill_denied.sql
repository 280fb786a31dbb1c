-- Why a process may not be signalled: whose it is, and who asks.
SELECT activity.usesysid = 0 OR owner.oid IS NULL OR owner.rolsuper,
       owner.rolname::text,
       current_user::text
FROM pg_catalog.pg_stat_get_activity(%(pid)s) AS activity
LEFT JOIN pg_catalog.pg_roles AS owner ON owner.oid = activity.usesysid
