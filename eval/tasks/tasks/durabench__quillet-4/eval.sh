#!/bin/bash
set -uxo pipefail
cd /testbed
export PYTHONDONTWRITEBYTECODE=1
git status
git checkout c2826495d5acf2cd3d4dd1cfbdb393ee62cce65e tests/conftest.py tests/test_errors.py tests/test_escape.py tests/test_filters.py tests/test_loaders.py tests/test_templates.py
git apply -v - <<'EOF_114329324912'
diff --git a/tests/test_loops.py b/tests/test_loops.py
new file mode 100644
index 0000000000000000000000000000000000000000..00b47f278eafb2a6a76a9bd7aca508ba85d25a17
--- /dev/null
+++ b/tests/test_loops.py
@@ -0,0 +1,69 @@
+import pytest
+
+from quillet import RenderError, TemplateSyntaxError
+
+
+def test_else_stands_for_no_items(render):
+    source = "{% for x in xs %}{{ x }}{% else %}none{% endfor %}"
+    assert render(source, xs=[]) == "none"
+    assert render(source, xs=[1, 2]) == "12"
+
+
+def test_else_belongs_to_the_innermost_tag(render):
+    source = "{% for x in xs %}{% if x %}y{% else %}n{% endif %}{% else %}none{% endfor %}"
+    assert render(source, xs=[1, 0]) == "yn"
+    assert render(source, xs=[]) == "none"
+
+
+def test_a_loop_in_a_condition(render):
+    source = "{% if a %}{% for x in a %}{{ x }}{% endfor %}{% else %}none{% endif %}"
+    assert render(source, a="xy") == "xy"
+    assert render(source, a="") == "none"
+
+
+def test_a_generator_may_be_empty(render):
+    source = "{% for x in xs %}{{ x }}{% else %}none{% endfor %}"
+    assert render(source, xs=iter(())) == "none"
+    assert render(source, xs=(x for x in "ab")) == "ab"
+
+
+def test_where_the_loop_is(render):
+    source = (
+        "{% for x in xs %}{{ loop.index }}/{{ loop.length }}{{ x }}"
+        "{% if loop.first %}!{% endif %}{% if not loop.last %}, {% endif %}{% endfor %}"
+    )
+    assert render(source, xs="abc") == "1/3a!, 2/3b, 3/3c"
+
+
+def test_the_outer_loop_goes_on_behind_the_inner_one(render):
+    source = (
+        "{% for row in rows %}{% for x in row %}{{ loop.index }}{% endfor %}"
+        "-{{ loop.index }};{% endfor %}"
+    )
+    assert render(source, rows=["ab", "", "c"]) == "12-1;-2;1-3;"
+
+
+def test_a_variable_called_loop_returns(render):
+    source = "{{ loop }}{% for x in xs %}{{ loop.index }}{% endfor %}{{ loop }}"
+    assert render(source, xs="a", loop="L") == "L1L"
+
+
+def test_there_is_no_loop_outside_of_loops(render):
+    with pytest.raises(RenderError, match="loop is not defined"):
+        render("{% for x in xs %}{% endfor %}{{ loop.index }}", xs="a")
+    with pytest.raises(RenderError, match="loop is not defined"):
+        render("{% for x in xs %}{% else %}{{ loop.index }}{% endfor %}", xs="")
+
+
+@pytest.mark.parametrize(
+    "source",
+    [
+        "{% for x in xs %}a{% else %}b",
+        "{% for x in xs %}a{% else %}b{% else %}c{% endfor %}",
+        "{% for x in xs %}a{% elif x %}b{% endfor %}",
+    ],
+    ids=["not-ended", "two-elses", "elif"],
+)
+def test_what_a_loop_cannot_be(render, source):
+    with pytest.raises(TemplateSyntaxError):
+        render(source, xs=[])
EOF_114329324912
: '>>>>> Start Test Output'
python -m pytest -rA -p no:cacheprovider tests/test_errors.py tests/test_escape.py tests/test_filters.py tests/test_loaders.py tests/test_loops.py tests/test_templates.py
: '>>>>> End Test Output'
git checkout c2826495d5acf2cd3d4dd1cfbdb393ee62cce65e tests/conftest.py tests/test_errors.py tests/test_escape.py tests/test_filters.py tests/test_loaders.py tests/test_templates.py
rm -f tests/test_loops.py
