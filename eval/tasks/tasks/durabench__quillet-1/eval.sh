#!/bin/bash
set -uxo pipefail
cd /testbed
export PYTHONDONTWRITEBYTECODE=1
git status
git checkout 28e8cb8d7e265d3d5ef3e6b580d74fa82106439f tests/conftest.py tests/test_errors.py tests/test_escape.py tests/test_filters.py tests/test_loaders.py tests/test_templates.py
git apply -v - <<'EOF_114329324912'
diff --git a/tests/test_filters.py b/tests/test_filters.py
index 7e5c9d965db55f106f92e65288a0a48cec4d16e5..ced0f476170d152b918bea135193ba634deeaf4f 100644
--- a/tests/test_filters.py
+++ b/tests/test_filters.py
@@ -30,6 +30,24 @@ def test_wrap_breaks_words_that_are_too_long(render):
     assert render("{{ x|wrap(5) }}", x="abcdefgh") == "abcde\nfgh"
 
 
+@pytest.mark.parametrize("line_break", ["\n", "\r\n"], ids=["lf", "crlf"])
+def test_wrap_keeps_line_breaks(render, line_break):
+    text = line_break.join(["Dear Zoë,", "", "one two three four", "five", ""])
+    wrapped = line_break.join(["Dear Zoë,", "", "one two", "three", "four", "five", ""])
+    assert render("{{ x|wrap(9) }}", x=text) == wrapped
+
+
+def test_wrap_never_mixes_line_breaks(render):
+    assert render("{{ x|wrap(7) }}", x="one two three\r\nfour") == "one two\r\nthree\r\nfour"
+
+
+def test_wrapping_twice_is_wrapping_once(render):
+    text = "Überall dieselbe alte Leier\n\nund dann – nichts"
+    once = render("{{ x|wrap(12) }}", x=text)
+    assert once.count("\n\n") == 1
+    assert render("{{ x|wrap(12) }}", x=once) == once
+
+
 def test_indent(render):
     assert render("  {{ x|indent(2) }}", x="one\ntwo") == "  one\n  two"
 
EOF_114329324912
: '>>>>> Start Test Output'
python -m pytest -rA -p no:cacheprovider tests/test_errors.py tests/test_escape.py tests/test_filters.py tests/test_loaders.py tests/test_templates.py
: '>>>>> End Test Output'
git checkout 28e8cb8d7e265d3d5ef3e6b580d74fa82106439f tests/conftest.py tests/test_errors.py tests/test_escape.py tests/test_filters.py tests/test_loaders.py tests/test_templates.py
