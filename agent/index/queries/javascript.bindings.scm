(formal_parameters [
  (identifier) @variable
  (assignment_pattern left: (identifier) @variable)
  (rest_pattern (identifier) @variable)])
(field_definition property: (property_identifier) @variable value: (_) @value)
(field_definition property: (property_identifier) @variable !value)
(variable_declarator name: (identifier) @variable value: (_) @value)
(variable_declarator name: (identifier) @variable !value)
