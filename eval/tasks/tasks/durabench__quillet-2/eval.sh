#!/bin/bash
set -uxo pipefail
cd /testbed
export PYTHONDONTWRITEBYTECODE=1
git status
git checkout 0e02f67e230f332da492a762389bca5019194936 tests/conftest.py tests/test_errors.py tests/test_escape.py tests/test_filters.py tests/test_loaders.py tests/test_templates.py
git apply -v - <<'EOF_114329324912'
diff --git a/tests/test_errors.py b/tests/test_errors.py
index 663fc55f1591292d6dbdf067f35c5ac4f2996236..bad72cc088517e8dc6edca2698a92a0defcaf981 100644
--- a/tests/test_errors.py
+++ b/tests/test_errors.py
@@ -1,6 +1,6 @@
 import pytest
 
-from quillet import RenderError, TemplateSyntaxError
+from quillet import DictLoader, Engine, RenderError, TemplateSyntaxError
 
 
 @pytest.mark.parametrize(
@@ -38,3 +38,46 @@ def test_attributes_with_an_underscore_are_hidden(render):
 def test_looping_over_a_number(render):
     with pytest.raises(RenderError, match="int is not a collection"):
         render("{% for x in 5 %}{% endfor %}")
+
+
+@pytest.mark.parametrize(
+    "before",
+    [
+        "{# one\ntwo\nthree #}",
+        "{# alone\non its lines #}\n",
+        "{{ x|default(\n1\n) }}",
+        "{% set\ny\n= 1 %}",
+    ],
+    ids=["comment", "comment-alone", "value", "block"],
+)
+def test_tags_over_several_lines_are_counted(render, before):
+    with pytest.raises(RenderError) as error:
+        render(before + "\n{{ nothing }}", x=None)
+    assert error.value.line == before.count("\n") + 2
+
+
+def test_a_tag_over_several_lines_is_where_it_begins(render):
+    with pytest.raises(RenderError) as error:
+        render("a\n{{\n\nnothing\n}}")
+    assert error.value.line == 2
+
+
+def test_errors_name_the_template():
+    engine = Engine(DictLoader({"mail.txt": "a\n{{ nothing }}", "broken.txt": "{% if %}"}))
+    with pytest.raises(RenderError, match="mail.txt:2: nothing is not defined"):
+        engine.get("mail.txt").render()
+    with pytest.raises(TemplateSyntaxError, match="broken.txt:1: "):
+        engine.get("broken.txt")
+
+
+def test_errors_in_an_included_template_name_that_one():
+    sources = {"page": '\n\n{% include "footer" %}', "footer": "{#\n#}{{ nothing }}"}
+    with pytest.raises(RenderError) as error:
+        Engine(DictLoader(sources)).get("page").render()
+    assert (error.value.template, error.value.line) == ("footer", 2)
+
+
+def test_an_include_that_is_not_there_names_the_one_that_asks():
+    sources = {"page": '{% set\na = 1 %}\n{% include "footer" %}'}
+    with pytest.raises(RenderError, match="page:3: no template 'footer'"):
+        Engine(DictLoader(sources)).get("page").render()
EOF_114329324912
: '>>>>> Start Test Output'
python -m pytest -rA -p no:cacheprovider tests/test_errors.py tests/test_escape.py tests/test_filters.py tests/test_loaders.py tests/test_templates.py
: '>>>>> End Test Output'
git checkout 0e02f67e230f332da492a762389bca5019194936 tests/conftest.py tests/test_errors.py tests/test_escape.py tests/test_filters.py tests/test_loaders.py tests/test_templates.py
