-- Name the functions, operators and tables that a query uses, and that another role has put in the place of others: a function or an
-- operator with a name of the server's and nearer argument types, or a table in front of its namesake. With equal argument types the
-- server's own answers, as it comes first on the path. Not another role is this one, one that it may act as, a superuser, and the
-- owner of the schema or of the database. Without a query all of them are named. `verify` runs the same text.
CREATE OR REPLACE FUNCTION pipestate.impostors(schemas text[], query text) RETURNS text
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $impostors$
<<impostors>>
$impostors$;
