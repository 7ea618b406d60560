(call_expression function: (scoped_identifier name: (identifier) @name)) @reference.call
(call_expression function: (generic_function function: [
  (identifier) @name
  (scoped_identifier name: (identifier) @name)
  (field_expression field: (field_identifier) @name)])) @reference.call
(macro_invocation macro: (scoped_identifier name: (identifier) @name)) @reference.call
[(field_expression) (scoped_identifier) (scoped_type_identifier)] @use
[(identifier) (type_identifier)] @use
[(use_declaration) (mod_item !body)] @skip
