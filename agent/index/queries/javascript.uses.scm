(formal_parameters [
  (identifier) @local
  (assignment_pattern left: (identifier) @local)])
