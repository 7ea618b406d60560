[(identifier) (type_identifier) (field_identifier)] @use
(keyed_element . (literal_element (identifier) @skip))
[(package_clause) (import_declaration)] @skip

(parameter_declaration name: (identifier) @local type: (_) @type)
(variadic_parameter_declaration name: (identifier) @local)
(short_var_declaration left: (expression_list . (identifier) @local)
  right: (expression_list . (_) @value))
(short_var_declaration left: (expression_list (_) (identifier) @local))
(range_clause left: (expression_list (identifier) @local))
(var_spec name: (identifier) @local type: (_) @type)
(var_spec name: (identifier) @local !type value: (expression_list . (_) @value))
(field_declaration name: (field_identifier) @local type: (_) @type)
