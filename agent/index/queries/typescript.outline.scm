(enum_declaration name: (identifier) @name) @definition.class
(type_alias_declaration name: (type_identifier) @name) @definition.class
(internal_module name: (identifier) @name) @definition.class
(class_body (public_field_definition name: (property_identifier) @name) @definition.variable)
(interface_body (property_signature name: (property_identifier) @name) @definition.variable)

(_ name: (type_identifier) @owner (class_heritage (extends_clause value: (_) @base)))
(_ name: (type_identifier) @owner (class_heritage (implements_clause (_) @base)))
(interface_declaration name: (type_identifier) @owner (extends_type_clause type: (_) @base))
