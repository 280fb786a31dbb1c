-- Prepared transactions.
SELECT transaction::text, gid, prepared, ownerid, dbid
FROM {prepared}
