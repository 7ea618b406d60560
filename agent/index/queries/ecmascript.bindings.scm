(arrow_function parameter: (identifier) @variable)
(catch_clause parameter: (identifier) @variable)
(shorthand_property_identifier_pattern) @variable
(pair_pattern value: (identifier) @variable)
(array_pattern (identifier) @variable)
(for_in_statement left: (identifier) @variable)
(assignment_expression
  left: (member_expression object: (this) @receiver property: (property_identifier) @attribute)
  right: (_) @value)
