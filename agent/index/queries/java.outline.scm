(enum_declaration name: (identifier) @name) @definition.class
(record_declaration name: (identifier) @name) @definition.class
(annotation_type_declaration name: (identifier) @name) @definition.class
(constructor_declaration name: (identifier) @name) @definition.method
(field_declaration declarator: (variable_declarator name: (identifier) @name)) @definition.variable
(constant_declaration declarator: (variable_declarator name: (identifier) @name)) @definition.variable
(enum_constant name: (identifier) @name) @definition.variable

(_ name: (identifier) @owner superclass: (superclass (_) @base))
(_ name: (identifier) @owner interfaces: (super_interfaces (type_list (_) @base)))
(interface_declaration name: (identifier) @owner (extends_interfaces (type_list (_) @base)))

(import_declaration (scoped_identifier scope: (_) @module name: (_) @imported) .)
(import_declaration [(scoped_identifier) (identifier)] @module (asterisk) @star)
