(decorated_definition definition: (function_definition name: (identifier) @name)) @definition.function
(decorated_definition definition: (class_definition name: (identifier) @name)) @definition.class

(module (expression_statement (assignment left: [
  (identifier) @name
  (pattern_list [(identifier) @name (tuple_pattern (identifier) @name)])
  (_ (list_splat_pattern (identifier) @name))
  (_ (_ (list_splat_pattern (identifier) @name)))]) @definition.variable))
(module (_ (block (expression_statement (assignment left: (identifier) @name) @definition.variable))))
(module (_ (_ (block
  (expression_statement (assignment left: (identifier) @name) @definition.variable)))))
(class_definition body: (block
  (expression_statement (assignment left: (identifier) @name) @definition.variable)))

(class_definition name: (identifier) @owner superclasses: (argument_list [
  (identifier) @base (attribute) @base (subscript value: (_) @base)]))

(import_statement name: (dotted_name) @module)
(import_statement name: (aliased_import name: (dotted_name) @module alias: (identifier) @alias))
(import_from_statement module_name: (_) @module name: (dotted_name) @imported)
(import_from_statement module_name: (_) @module
  name: (aliased_import name: (dotted_name) @imported alias: (identifier) @alias))
(import_from_statement module_name: (_) @module (wildcard_import) @star)
