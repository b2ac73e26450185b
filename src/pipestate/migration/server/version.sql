-- The version of these functions: a number that says which of two is newer, and the digest of their text. Clients and
-- scripts of another version refuse to use them.
CREATE OR REPLACE FUNCTION pipestate.version() RETURNS text
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$ SELECT '1.<<digest>>' $$;

-- Refuse to run a script on a ledger that another role owns, that has functions of another version, or that this role may not use.
-- The first revision of a registry has the functions, and no other tables.
CREATE OR REPLACE PROCEDURE pipestate.require_version(wanted text, with_tables boolean DEFAULT true)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  other_owner record;
BEGIN
  <<foreign_owner>>;
  IF other_owner.what IS NOT NULL THEN
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = format('<<foreign_message>>', other_owner.what, other_owner.owner, other_owner.me);
  ELSIF with_tables AND to_regclass('pipestate.run') IS NULL THEN
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = 'this database has no ledger: run `pipestate ledger install`, or a revision that '
      'calls install_ledger()';
  ELSIF pipestate.version() <> wanted THEN
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = format('the functions of the ledger have version %s, and this script needs %s: '
      'update them with pipestate ledger install, or write the script again', pipestate.version(), wanted);
  ELSIF with_tables AND NOT pipestate.may_record() THEN
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = format('this role may not record in the ledger. As its owner: '
      'CALL pipestate.grant_migrating(%L)', current_user);
  END IF;
  PERFORM set_config('pipestate.compared', 'yes', false);
END $$;
