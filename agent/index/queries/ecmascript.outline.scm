(class_body (method_definition name: (property_identifier) @name
  (#eq? @name "constructor")) @definition.method)
(program [
  (lexical_declaration (variable_declarator name: (identifier) @name)) @definition.variable
  (variable_declaration (variable_declarator name: (identifier) @name)) @definition.variable
  (export_statement (lexical_declaration
    (variable_declarator name: (identifier) @name)) @definition.variable)])

(import_statement source: (string) @module)
(import_statement (import_clause (identifier) @alias) @default source: (string) @module)
(import_statement (import_clause (namespace_import (identifier) @alias)) source: (string) @module)
(import_statement (import_clause (named_imports
  (import_specifier name: (_) @imported !alias))) source: (string) @module)
(import_statement (import_clause (named_imports
  (import_specifier name: (_) @imported alias: (_) @alias))) source: (string) @module)
(export_statement !declaration (export_clause
  (export_specifier name: (_) @imported !alias)) source: (string) @module)
(export_statement !declaration (export_clause
  (export_specifier name: (_) @imported alias: (_) @alias)) source: (string) @module)
(export_statement "*" @star source: (string) @module)
(export_statement "default" [value: (identifier) @exported
  declaration: (_ name: (_) @exported)])
(call_expression function: [(import) (identifier) @_require] arguments: (arguments . (string) @module)
  (#eq? @_require "require"))
(variable_declarator name: (identifier) @alias
  value: (call_expression function: (identifier) @_require arguments: (arguments . (string) @module))
  (#eq? @_require "require"))
(variable_declarator name: (object_pattern [
    (shorthand_property_identifier_pattern) @imported
    (pair_pattern key: (property_identifier) @imported value: (identifier) @alias)])
  value: (call_expression function: (identifier) @_require arguments: (arguments . (string) @module))
  (#eq? @_require "require"))
