; ecmascript.uses.scm has all of them
