-- Every server process. Read after the locks, in a statement of its own.
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
       pg_catalog.age(backend_xmin),
       query
FROM {activity}
