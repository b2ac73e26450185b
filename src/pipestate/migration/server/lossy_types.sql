-- Find the type of an array's elements; any other type is itself.
CREATE OR REPLACE FUNCTION pipestate.element_type(type oid) RETURNS oid
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
  SELECT coalesce((SELECT t.typelem FROM pg_type t WHERE t.oid = type AND t.typcategory = 'A' AND t.typelem <> 0), type)
$$;

-- Say whether a change between two base types can lose silently.
CREATE OR REPLACE FUNCTION pipestate.loses(old regtype, old_modifier integer, new regtype, new_modifier integer, by_hand boolean)
RETURNS boolean LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
  WITH kept AS (
    SELECT CASE old_modifier WHEN -1 THEN 6 ELSE old_modifier END AS old_digits,
           CASE new_modifier WHEN -1 THEN 6 ELSE new_modifier END AS new_digits,
           CASE WHEN old = 'money'::regtype THEN 2 WHEN old = 'numeric'::regtype AND old_modifier <> -1
                THEN (((old_modifier - 4) & 2047) # 1024) - 1024 END AS old_scale,
           CASE WHEN new_modifier <> -1 THEN (((new_modifier - 4) & 2047) # 1024) - 1024 END AS new_scale
  )
  SELECT CASE
    WHEN new IN ('text', 'varchar', 'bpchar') THEN
      by_hand AND old IN ('text', 'varchar', 'bpchar') AND new_modifier <> -1
        AND (old = 'text'::regtype OR old_modifier = -1 OR new_modifier < old_modifier)
    WHEN old IN ('text', 'varchar', 'bpchar') THEN
      new IN ('real', 'float8', 'date', 'time', 'timetz', 'money', '"char"', 'name')
        OR (new IN ('numeric', 'timestamp', 'timestamptz', 'interval') AND new_modifier NOT IN (-1, 6))
    WHEN old IN ('bit', 'varbit') AND new IN ('bit', 'varbit') THEN
      by_hand AND new_modifier <> -1 AND (old_modifier = -1 OR new_modifier < old_modifier)
    WHEN old IN ('numeric', 'real', 'float8', 'money') THEN
      CASE WHEN new IN ('smallint', 'integer', 'bigint') THEN old_scale IS NULL OR old_scale > 0
           WHEN new = 'money'::regtype THEN old_scale IS NULL OR old_scale > 2
           WHEN new = 'numeric'::regtype THEN new_modifier <> -1 AND (old_scale IS NULL OR new_scale < old_scale)
           ELSE new IN ('real', 'float8') AND old <> 'real'::regtype AND old <> new END
    WHEN old IN ('smallint', 'integer', 'bigint') THEN
      (new = 'numeric'::regtype AND new_scale < 0) OR (new = 'real'::regtype AND old <> 'smallint'::regtype)
        OR (new = 'float8'::regtype AND old = 'bigint'::regtype)
    WHEN old = 'inet'::regtype AND new = 'cidr'::regtype THEN true
    WHEN old IN ('timestamp', 'timestamptz') THEN
      new IN ('date', 'time', 'timetz') OR (new IN ('timestamp', 'timestamptz') AND new_digits < old_digits)
    WHEN old IN ('time', 'timetz') THEN
      (old = 'timetz'::regtype AND new = 'time'::regtype) OR (new IN ('time', 'timetz') AND new_digits < old_digits)
    WHEN old = 'interval'::regtype THEN
      new = 'time'::regtype OR (new = 'interval'::regtype AND new_modifier NOT IN (-1, old_modifier))
    ELSE false END
  FROM kept
$$;
