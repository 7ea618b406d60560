(formal_parameter type: (_) @type name: (identifier) @variable)
(catch_formal_parameter (catch_type . (_) @type) name: (identifier) @variable)
(lambda_expression parameters: [
  (identifier) @variable
  (inferred_parameters (identifier) @variable)])
(local_variable_declaration type: (_) @type
  declarator: (variable_declarator name: (identifier) @variable) (#not-eq? @type "var"))
(local_variable_declaration type: (type_identifier) @_var
  declarator: (variable_declarator name: (identifier) @variable value: (_) @value)
  (#eq? @_var "var"))
(enhanced_for_statement type: (_) @type name: (identifier) @variable)
(field_declaration type: (_) @type declarator: (variable_declarator name: (identifier) @variable))
(method_declaration type: (_) @type name: (identifier) @function)
