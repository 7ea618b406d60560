[(selector_expression) (qualified_type)] @use
[(identifier) (type_identifier)] @use
(keyed_element . (literal_element (identifier) @skip))
[(package_clause) (import_declaration)] @skip
