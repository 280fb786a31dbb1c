-- Asked for few waiters only: each call locks the whole lock table for a moment.
SELECT waiter, pg_catalog.pg_blocking_pids(waiter)
FROM pg_catalog.unnest(%s::int[]) AS waiter
