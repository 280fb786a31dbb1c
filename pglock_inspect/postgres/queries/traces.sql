-- Which traces of known software a database has. A policy on a table would run its owner's code as us: such a
-- table is not readable.
WITH trace (text, kind, schema, name, columns) AS (
    SELECT *
    FROM unnest(%(texts)s::text[], %(kinds)s::text[], %(schemas)s::text[], %(names)s::text[], %(columns)s::text[])
)
SELECT text,
       nspname::text,
       relname::text,
       relation.oid,
       has_schema_privilege(place.oid, 'USAGE')
           AND has_table_privilege(relation.oid, 'SELECT')
           AND NOT row_security_active(relation.oid)
FROM trace
JOIN pg_class AS relation ON relname = trace.name AND relkind IN ('r', 'p')
JOIN pg_namespace AS place ON place.oid = relnamespace AND nspname = coalesce(trace.schema, nspname)
WHERE kind = 'table'
  AND string_to_array(columns, ',') <@ ARRAY(
      SELECT attname::text FROM pg_attribute WHERE attrelid = relation.oid AND attnum > 0 AND NOT attisdropped)
UNION ALL
SELECT text, NULL, NULL, NULL, NULL FROM trace JOIN pg_namespace ON nspname = trace.name WHERE kind = 'schema'
UNION ALL
SELECT text, NULL, NULL, NULL, NULL FROM trace JOIN pg_extension ON extname = trace.name WHERE kind = 'extension'
