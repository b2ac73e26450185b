-- Whether one of the tables holds a row, in the world of a look, which the exception at the end takes back.
--
-- <<world>> sets the world, <<tables>> the tables, <<refuse_absent>> stands where none of them may be gone
  BEGIN
<<world>>
    FOREACH t IN ARRAY ARRAY[<<tables>>] LOOP
<<refuse_absent>>
      IF to_regclass(t) IS NOT NULL AND NOT filled THEN
        EXECUTE format('SELECT EXISTS (SELECT FROM %s)', to_regclass(t)) INTO filled;
      END IF;
    END LOOP;
    RAISE EXCEPTION USING ERRCODE = 'PSTRO';
  EXCEPTION WHEN SQLSTATE 'PSTRO' THEN NULL;
  END;
