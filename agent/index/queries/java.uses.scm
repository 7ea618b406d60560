(object_creation_expression type: (generic_type . (type_identifier) @name)) @reference.class
[(identifier) (type_identifier)] @use
[(package_declaration) (import_declaration)] @skip
(marker_annotation name: (identifier) @name) @reference.call
(annotation name: (identifier) @name) @reference.call

(formal_parameter name: (identifier) @local)
(catch_formal_parameter name: (identifier) @local)
(lambda_expression parameters: [
  (identifier) @local
  (inferred_parameters (identifier) @local)])
(local_variable_declaration declarator: (variable_declarator name: (identifier) @local))
(enhanced_for_statement name: (identifier) @local)
