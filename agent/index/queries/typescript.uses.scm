(type_identifier) @use
(required_parameter pattern: (identifier) @local)
(optional_parameter pattern: (identifier) @local)
