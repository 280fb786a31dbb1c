-- The server's clock before its lock table is read: every age is as of this moment.
SELECT pg_catalog.clock_timestamp(), pg_catalog.pg_is_in_recovery()
