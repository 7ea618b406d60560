(call_expression function: (scoped_identifier name: (identifier) @name)) @reference.call
(call_expression function: (generic_function function: [
  (identifier) @name
  (scoped_identifier name: (identifier) @name)
  (field_expression field: (field_identifier) @name)])) @reference.call
(macro_invocation macro: (scoped_identifier name: (identifier) @name)) @reference.call
[(identifier) (type_identifier) (field_identifier)] @use
(field_initializer field: (field_identifier) @skip)
[(use_declaration) (mod_item !body)] @skip

(parameter pattern: [(identifier) @local (mut_pattern (identifier) @local)] type: (_) @type)
(closure_parameters (identifier) @local)
(let_declaration pattern: (identifier) @local type: (_) @type)
(let_declaration pattern: (identifier) @local !type value: (_) @value)
(let_declaration pattern: (identifier) @local !type !value)
(field_declaration name: (field_identifier) @local type: (_) @type)
(for_expression pattern: [(identifier) @local (_ (identifier) @local)])
(tuple_pattern (identifier) @local)
(tuple_struct_pattern type: (_) (identifier) @local)
(match_pattern (identifier) @local)
