(method_declaration
  receiver: (parameter_list (parameter_declaration type: (_) @owner))
  name: (field_identifier) @name) @definition.method
(method_elem name: (field_identifier) @name) @definition.method
(source_file (var_declaration [
  (var_spec name: (identifier) @name) @definition.variable
  (var_spec_list (var_spec name: (identifier) @name) @definition.variable)]))
(source_file (const_declaration (const_spec name: (identifier) @name) @definition.variable))
(field_declaration name: (field_identifier) @name) @definition.variable

(type_spec name: (type_identifier) @owner type: (struct_type (field_declaration_list
  (field_declaration !name type: (_) @base))))
(type_spec name: (type_identifier) @owner type: (interface_type (type_elem (_) @base)))

(import_spec !name path: (_) @module)
(import_spec name: (package_identifier) @alias path: (_) @module)
(import_spec name: (blank_identifier) path: (_) @module)
(import_spec name: (dot) @star path: (_) @module)
