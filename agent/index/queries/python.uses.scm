(decorator (identifier) @name) @reference.call
(decorator (attribute attribute: (identifier) @name)) @reference.call
(attribute) @use
(identifier) @use
(keyword_argument name: (identifier) @skip)
[(import_statement) (import_from_statement) (future_import_statement)] @skip
(global_statement) @skip
