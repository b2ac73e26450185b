-- Every object of a file with its definition, without pipestate's own.
SELECT '' AS schema, 'column' AS kind, m.name || '.' || c.name AS name,
       c.type || CASE WHEN c."notnull" THEN ', not null' ELSE '' END || coalesce(', default ' || c.dflt_value, '')
         || CASE WHEN c.pk THEN ', key' ELSE '' END AS definition, NULL AS rights, 0 AS left_out
FROM sqlite_master m JOIN pragma_table_xinfo(m.name) c
WHERE m.type = 'table' AND m.name NOT LIKE 'sqlite!_%' ESCAPE '!' AND m.name NOT LIKE 'pipestate!_%' ESCAPE '!'
UNION ALL
SELECT '', m.type, m.name, CASE WHEN m.type = 'table' THEN '' ELSE coalesce(m.sql, '') END, NULL, 0
FROM sqlite_master m
WHERE m.name NOT LIKE 'sqlite!_%' ESCAPE '!' AND m.tbl_name NOT LIKE 'pipestate!_%' ESCAPE '!'
UNION ALL
SELECT '', 'foreign key', m.name || '.' || f."from",
       f."table" || '.' || coalesce(f."to", '') || ' on delete ' || f.on_delete, NULL, 0
FROM sqlite_master m JOIN pragma_foreign_key_list(m.name) f
WHERE m.type = 'table' AND m.name NOT LIKE 'pipestate!_%' ESCAPE '!'
