(parameters [
  (identifier) @variable
  (default_parameter name: (identifier) @variable)
  (list_splat_pattern (identifier) @rest)
  (dictionary_splat_pattern (identifier) @rest)
  (typed_parameter [
    (list_splat_pattern (identifier) @rest)
    (dictionary_splat_pattern (identifier) @rest)])])
(parameters (typed_parameter . (identifier) @variable type: (type) @type))
(parameters (typed_default_parameter name: (identifier) @variable type: (type) @type))
(lambda_parameters [
  (identifier) @variable
  (default_parameter name: (identifier) @variable)
  (_ (identifier) @variable)])
(assignment left: (identifier) @variable !type right: (_) @value)
(assignment left: (identifier) @variable type: (type) @type)
(assignment left: (pattern_list [(identifier) @variable (_ (identifier) @variable)]))
(assignment left: (attribute object: (identifier) @receiver attribute: (identifier) @attribute)
  !type right: (_) @value)
(assignment left: (attribute object: (identifier) @receiver attribute: (identifier) @attribute)
  type: (type) @type)
(named_expression name: (identifier) @variable value: (_) @value)
(as_pattern (_) @value alias: (as_pattern_target (identifier) @variable))
(for_statement left: [(identifier) @variable (_ (identifier) @variable)])
(for_in_clause left: [(identifier) @variable (_ (identifier) @variable)])
(case_pattern (dotted_name . (identifier) @variable .))
(function_definition name: (identifier) @function return_type: (type) @type)
