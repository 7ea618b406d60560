(decorator (identifier) @name) @reference.call
(decorator (attribute attribute: (identifier) @name)) @reference.call
(identifier) @use
(keyword_argument name: (identifier) @skip)
[(import_statement) (import_from_statement) (future_import_statement)] @skip
(global_statement) @skip

(parameters [
  (identifier) @local
  (default_parameter name: (identifier) @local)
  (typed_parameter . (_ (identifier) @local))
  (list_splat_pattern (identifier) @local)
  (dictionary_splat_pattern (identifier) @local)])
(lambda_parameters [
  (identifier) @local
  (default_parameter name: (identifier) @local)
  (_ (identifier) @local)])
(parameters (typed_parameter . (identifier) @local type: (type) @type))
(parameters (typed_default_parameter name: (identifier) @local type: (type) @type))
(assignment left: (identifier) @local !type right: (_) @value)
(assignment left: (identifier) @local type: (type) @type)
(assignment left: (attribute object: (identifier) @_self attribute: (identifier) @attribute)
  !type right: (_) @value (#eq? @_self "self"))
(assignment left: (attribute object: (identifier) @_self attribute: (identifier) @attribute)
  type: (type) @type (#eq? @_self "self"))
(assignment left: [
  (pattern_list (identifier) @local)
  (tuple_pattern (identifier) @local)])
(named_expression name: (identifier) @local)
(as_pattern (_) @value alias: (as_pattern_target (identifier) @local))
(for_statement left: [(identifier) @local (_ (identifier) @local)])
(for_in_clause left: [(identifier) @local (_ (identifier) @local)])
(case_pattern (dotted_name . (identifier) @local .))
