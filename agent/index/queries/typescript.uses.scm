(type_identifier) @use
