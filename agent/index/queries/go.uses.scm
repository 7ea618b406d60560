[(identifier) (type_identifier) (field_identifier)] @use
(keyed_element . (literal_element (identifier) @skip))
[(package_clause) (import_declaration)] @skip

(parameter_declaration name: (identifier) @local)
(variadic_parameter_declaration name: (identifier) @local)
(short_var_declaration left: (expression_list (identifier) @local))
(range_clause left: (expression_list (identifier) @local))
(var_spec name: (identifier) @local)
