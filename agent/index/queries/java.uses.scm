(object_creation_expression type: (generic_type . (type_identifier) @name)) @reference.class
[(identifier) (type_identifier)] @use
[(package_declaration) (import_declaration)] @skip
(marker_annotation name: (identifier) @name) @reference.call
(annotation name: (identifier) @name) @reference.call

(formal_parameter type: (_) @type name: (identifier) @local)
(catch_formal_parameter name: (identifier) @local)
(lambda_expression parameters: [
  (identifier) @local
  (inferred_parameters (identifier) @local)])
(local_variable_declaration type: (_) @type
  declarator: (variable_declarator name: (identifier) @local) (#not-eq? @type "var"))
(local_variable_declaration type: (type_identifier) @_var
  declarator: (variable_declarator name: (identifier) @local value: (_) @value)
  (#eq? @_var "var"))
(enhanced_for_statement type: (_) @type name: (identifier) @local)
(field_declaration type: (_) @type declarator: (variable_declarator name: (identifier) @local))
