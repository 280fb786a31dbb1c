-- The whole lock table in one scan: advisory keys grouped by process, the rest for its number and its waiters.
-- A prepared transaction's locks are known by the transactionid row that shares their virtualtransaction.
-- Fast-path locks take no slot of the shared table.
-- statement_timestamp() is when the server was told to read: every age is as of this moment.
SELECT locktype,
       pid,
       virtualtransaction,
       database,
       objsubid::int,
       mode,
       granted,
       {waitstart} AS waitstart,
       CASE WHEN pid IS NULL THEN transactionid::text END AS prepared_xid,
       pg_catalog.count(*) FILTER (WHERE NOT fastpath) AS slots,
       pg_catalog.array_agg((classid::bigint << 32) | objid::bigint)
           FILTER (WHERE locktype = 'advisory') AS keys,
       pg_catalog.statement_timestamp() AS taken_at,
       pg_catalog.pg_is_in_recovery() AS in_recovery
FROM {locks}
GROUP BY 1, 2, 3, 4, 5, 6, 7, 8, 9
