-- Our own session: it never waits long, never spills to disk, never writes, and never outlives a dead client by much.
SELECT pg_catalog.set_config(name, value, %(local)s)
FROM (VALUES ('statement_timeout', %(statement_timeout)s),
             ('lock_timeout', %(lock_timeout)s),
             ('default_transaction_read_only', 'on'),
             ('work_mem', '64MB'),
             ('jit', 'off'),
             ('tcp_keepalives_idle', '30'),
             ('tcp_keepalives_interval', '10'),
             ('tcp_keepalives_count', '3'),
             ('tcp_user_timeout', '60000')) AS setting (name, value)
