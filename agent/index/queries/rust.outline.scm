(impl_item type: [(type_identifier) @name (generic_type type: (type_identifier) @name)]) @container
(impl_item trait: (_) @base type: [(type_identifier) @owner (generic_type type: (_) @owner)])
(trait_item name: (_) @owner bounds: (trait_bounds (_) @base))
(function_signature_item name: (identifier) @name) @definition.function
(const_item name: (identifier) @name) @definition.variable
(static_item name: (identifier) @name) @definition.variable
(field_declaration name: (field_identifier) @name) @definition.variable
(enum_variant name: (identifier) @name) @definition.variable

(use_declaration argument: (_) @path)
(mod_item name: (identifier) @child !body)
