[(identifier) (property_identifier) (shorthand_property_identifier)] @use
[(import_statement) (export_clause)] @skip
(pair key: (property_identifier) @skip)

(arrow_function parameter: (identifier) @local)
(catch_clause parameter: (identifier) @local)
(shorthand_property_identifier_pattern) @local
(pair_pattern value: (identifier) @local)
(array_pattern (identifier) @local)
(rest_pattern (identifier) @local)
(for_in_statement left: (identifier) @local)
(assignment_expression
  left: (member_expression object: (this) property: (property_identifier) @attribute)
  right: (_) @value)
