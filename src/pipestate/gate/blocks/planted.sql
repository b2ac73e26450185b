-- Refuse where somebody else could answer in the server's place, before anything of his could be called.
--
-- <<world>> sets the world, <<query>> names what was planted, or is NULL, <<refused>> raises or, where it is forced, warns
  BEGIN
<<world>>
    SELECT found.names INTO planted FROM (<<query>>) AS found (names);
    RAISE EXCEPTION USING ERRCODE = 'PSTRO';
  EXCEPTION WHEN SQLSTATE 'PSTRO' THEN NULL;
  END;
  IF planted IS NOT NULL THEN
    <<refused>>
  END IF;
