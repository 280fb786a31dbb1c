-- Every server process. Read after the locks, in a statement of its own.
-- What holds back VACUUM is the older of a session's snapshot and its transaction id, which an idle writer has alone.
SELECT pid,
       datid,
       usesysid,
       application_name,
       pg_catalog.host(client_addr),
       client_port,
       state,
       backend_start,
       xact_start,
       query_start,
       state_change,
       wait_event_type,
       wait_event,
       backend_type,
       greatest(pg_catalog.age(backend_xmin), pg_catalog.age(backend_xid)),
       query
FROM {activity}
