(class_body (field_definition property: (property_identifier) @name) @definition.variable)
(_ name: (identifier) @owner (class_heritage (_) @base))
