#!/bin/bash
set -uxo pipefail
cd /testbed
export PYTHONDONTWRITEBYTECODE=1
git status
git checkout e7c38e6cb0b9ca158cdbe938267c0afed9c04622 tests/conftest.py tests/test_errors.py tests/test_escape.py tests/test_filters.py tests/test_loaders.py tests/test_templates.py
git apply -v - <<'EOF_114329324912'
diff --git a/tests/test_escape.py b/tests/test_escape.py
index 2ae08af39caba44ea4d8ffe15e3c2ca4a6cf3048..14982941227d6415f7c06d974b9f978f57984fc7 100644
--- a/tests/test_escape.py
+++ b/tests/test_escape.py
@@ -1,4 +1,8 @@
-from quillet import Safe, escape
+import importlib.util
+
+import pytest
+
+from quillet import Markup, Safe, escape
 
 
 def test_values_are_escaped(render_html):
@@ -25,3 +29,31 @@ def test_escape_in_python():
 
 def test_filters_that_add_characters_are_not_trusted(render_html):
     assert render_html('{{ none|default("<b>") }}') == "&lt;b&gt;"
+
+
+def test_markup_from_python_is_not_escaped(render_html):
+    assert render_html("{{ x }}", x=Markup("<b>")) == "<b>"
+    assert escape(Markup("<b>")) == "<b>"
+
+
+@pytest.mark.parametrize("last", ["trim", "indent(2)"])
+def test_rearranging_keeps_what_is_safe(render_html, last):
+    assert render_html("{{ x|safe|" + last + " }}", x="<b>") == "<b>"
+    assert render_html("{{ x|" + last + " }}", x="<b>") == "&lt;b&gt;"
+
+
+def test_joining_with_a_safe_separator_escapes_the_items(render_html):
+    source = '{{ xs|join("<br>"|safe) }}'
+    assert render_html(source, xs=["a<b", Safe("<i>")]) == "a&lt;b<br><i>"
+
+
+def test_joining_safe_items_escapes_the_separator(render_html):
+    assert render_html('{{ xs|join(" & ") }}', xs=[Safe("<i>"), "<"]) == "<i> &amp; &lt;"
+
+
+def test_joining_what_is_not_safe_escapes_once(render_html):
+    assert render_html('{{ xs|join("&") }}', xs=["<", 1]) == "&lt;&amp;1"
+
+
+def test_the_deprecated_module_is_gone():
+    assert importlib.util.find_spec("quillet.markup") is None
EOF_114329324912
: '>>>>> Start Test Output'
python -m pytest -rA -p no:cacheprovider tests/test_errors.py tests/test_escape.py tests/test_filters.py tests/test_loaders.py tests/test_templates.py
: '>>>>> End Test Output'
git checkout e7c38e6cb0b9ca158cdbe938267c0afed9c04622 tests/conftest.py tests/test_errors.py tests/test_escape.py tests/test_filters.py tests/test_loaders.py tests/test_templates.py
