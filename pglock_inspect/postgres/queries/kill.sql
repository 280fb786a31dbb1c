-- Signals one process if it still is as it was shown, in one statement: the lock table is read to its end, then the
-- process's own row, and then it is signalled. Each step needs the row of the one before, and MATERIALIZED keeps the
-- planner from merging them. What remains is the moment between the second step and the third. No action: a look.
WITH locks AS MATERIALIZED (
    SELECT %(pid)s::int AS pid,
           coalesce(pg_catalog.bool_or(granted AND pid = %(pid)s AND mode = %(mode)s), false) AS holds,
           coalesce(pg_catalog.bool_or(NOT granted AND pid = %(pid)s AND mode = %(mode)s), false) AS waits,
           pg_catalog.array_agg(DISTINCT pid) FILTER (WHERE granted AND pid <> %(pid)s) AS others
    FROM {locks}
    WHERE locktype = 'advisory'
      AND classid = %(classid)s::oid
      AND objid = %(objid)s::oid
      AND objsubid = %(objsubid)s
      AND database = coalesce(%(database)s::oid, database)
), process AS MATERIALIZED (
    SELECT locks.*, activity.pid IS NOT NULL AS lives, backend_start, state_change
    FROM locks
    LEFT JOIN LATERAL {process} AS activity ON true
)
SELECT lives,
       holds,
       waits,
       others,
       backend_start,
       state_change,
       CASE
           WHEN lives
               AND CASE WHEN %(granted)s THEN holds ELSE waits END
               AND backend_start IS NOT DISTINCT FROM %(backend_start)s::timestamptz
               AND (%(at_work)s OR state_change IS NOT DISTINCT FROM %(state_change)s::timestamptz)
           THEN CASE %(action)s::text
               WHEN 'terminate' THEN pg_catalog.pg_terminate_backend(pid)
               WHEN 'cancel' THEN pg_catalog.pg_cancel_backend(pid)
           END
       END AS signalled
FROM process
