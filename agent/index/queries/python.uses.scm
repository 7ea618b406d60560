(decorator (identifier) @name) @reference.call
(decorator (attribute attribute: (identifier) @name)) @reference.call
(identifier) @use
(keyword_argument name: (identifier) @skip)
[(import_statement) (import_from_statement) (future_import_statement)] @skip
(global_statement) @skip

(parameters [
  (identifier) @local
  (default_parameter name: (identifier) @local)
  (typed_default_parameter name: (identifier) @local)
  (typed_parameter . [(identifier) @local (_ (identifier) @local)])
  (list_splat_pattern (identifier) @local)
  (dictionary_splat_pattern (identifier) @local)])
(lambda_parameters [
  (identifier) @local
  (default_parameter name: (identifier) @local)
  (_ (identifier) @local)])
(assignment left: [
  (identifier) @local
  (pattern_list (identifier) @local)
  (tuple_pattern (identifier) @local)])
(named_expression name: (identifier) @local)
(as_pattern alias: (as_pattern_target (identifier) @local))
(for_statement left: [(identifier) @local (_ (identifier) @local)])
(for_in_clause left: [(identifier) @local (_ (identifier) @local)])
(case_pattern (dotted_name . (identifier) @local .))
