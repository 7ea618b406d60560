(type_identifier) @use
(required_parameter pattern: (identifier) @local type: (type_annotation (_) @type))
(required_parameter pattern: (identifier) @local !type)
(optional_parameter pattern: (identifier) @local type: (type_annotation (_) @type))
(optional_parameter pattern: (identifier) @local !type)
(required_parameter (accessibility_modifier) pattern: (identifier) @attribute
  type: (type_annotation (_) @type))
(variable_declarator name: (identifier) @local type: (type_annotation (_) @type))
(variable_declarator name: (identifier) @local !type value: (_) @value)
(variable_declarator name: (identifier) @local !type !value)
(public_field_definition name: (property_identifier) @local type: (type_annotation (_) @type))
(public_field_definition name: (property_identifier) @local !type value: (_) @value)
(property_signature name: (property_identifier) @local type: (type_annotation (_) @type))
