(formal_parameters [
  (identifier) @local
  (assignment_pattern left: (identifier) @local)])
(variable_declarator name: (identifier) @local value: (_) @value)
(variable_declarator name: (identifier) @local !value)
(field_definition property: (property_identifier) @local value: (_) @value)
