(member_expression) @use
[(identifier) (shorthand_property_identifier)] @use
[(import_statement) (export_clause)] @skip
