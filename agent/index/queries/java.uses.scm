(object_creation_expression type: (generic_type . (type_identifier) @name)) @reference.class
(method_reference (identifier) @use .)
[(method_invocation) (field_access) (scoped_type_identifier)] @use
[(identifier) (type_identifier)] @use
[(package_declaration) (import_declaration)] @skip
(marker_annotation name: (identifier) @name) @reference.call
(annotation name: (identifier) @name) @reference.call
