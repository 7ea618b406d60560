(parameter_declaration name: (identifier) @variable type: (_) @type)
(variadic_parameter_declaration name: (identifier) @variable)
(short_var_declaration left: (expression_list . (identifier) @variable)
  right: (expression_list . (_) @value))
(short_var_declaration left: (expression_list (_) (identifier) @variable))
(range_clause left: (expression_list (identifier) @variable))
(var_spec name: (identifier) @variable type: (_) @type)
(var_spec name: (identifier) @variable !type value: (expression_list . (_) @value))
(field_declaration name: (field_identifier) @variable type: (_) @type)
(function_declaration name: (_) @function result: [
  (parameter_list . (parameter_declaration type: (_) @type))
  (type_identifier) @type (pointer_type) @type (qualified_type) @type])
(method_declaration name: (_) @function result: [
  (parameter_list . (parameter_declaration type: (_) @type))
  (type_identifier) @type (pointer_type) @type (qualified_type) @type])
(method_elem name: (_) @function result: [
  (parameter_list . (parameter_declaration type: (_) @type))
  (type_identifier) @type (pointer_type) @type (qualified_type) @type])
