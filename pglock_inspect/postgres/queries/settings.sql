-- Our own session: it never waits long, never spills to disk, never writes, and never outlives a dead client by much.
-- Where another pid answers than logged in, a pooler hands its sessions on: there it lasts for a transaction only.
SELECT pg_catalog.set_config(name, value, pg_catalog.pg_backend_pid() <> %(backend_pid)s)
FROM (VALUES ('application_name', %(application_name)s),
             ('statement_timeout', %(statement_timeout)s),
             ('lock_timeout', '1s'),
             ('default_transaction_read_only', 'on'),
             ('transaction_read_only', 'on'),
             ('work_mem', '64MB'),
             ('jit', 'off'),
             ('tcp_keepalives_idle', '30'),
             ('tcp_keepalives_interval', '10'),
             ('tcp_keepalives_count', '3'),
             ('tcp_user_timeout', '60000')) AS setting (name, value)
