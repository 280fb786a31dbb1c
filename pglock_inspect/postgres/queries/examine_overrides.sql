-- What single roles and databases have set for themselves: jobs may run as another role than the one that asks.
SELECT rolname::text, datname::text, setting
FROM pg_catalog.pg_db_role_setting
CROSS JOIN LATERAL pg_catalog.unnest(setconfig) AS setting
LEFT JOIN pg_catalog.pg_roles ON pg_roles.oid = setrole
LEFT JOIN pg_catalog.pg_database ON pg_database.oid = setdatabase
WHERE pg_catalog.split_part(setting, '=', 1) = ANY (%(names)s)
ORDER BY 1, 2, 3
