#!/bin/bash
set -uxo pipefail
cd /testbed
export PYTHONDONTWRITEBYTECODE=1
git status
git checkout f1d9b5769d63e3d9bfb27ce46f7e29f8f4c4544b tests/test_convert.py tests/test_interpolate.py tests/test_layers.py tests/test_model.py tests/test_reader.py tests/test_writer.py
git apply -v - <<'EOF_114329324912'
diff --git a/tests/test_reader.py b/tests/test_reader.py
index 47b3c3e958f2885339741ae0e1d091b4b5908fe1..c01aac44d11c972ffbafe2716152e3b23b5372f8 100644
--- a/tests/test_reader.py
+++ b/tests/test_reader.py
@@ -38,6 +38,20 @@ def test_an_equals_sign_in_the_value():
     assert loads("query = a=1&b=2")[""].get("query") == "a=1&b=2"
 
 
+@pytest.mark.parametrize(
+    ("line", "name", "value"),
+    [
+        ("url: http://localhost/?page=2", "url", "http://localhost/?page=2"),
+        ("filter: a=b", "filter", "a=b"),
+        ("time = 12:30", "time", "12:30"),
+        ("mapping = a:b=c", "mapping", "a:b=c"),
+    ],
+    ids=["url", "colon-first", "equals-first", "both-in-value"],
+)
+def test_the_first_delimiter_counts(line, name, value):
+    assert loads(line).as_dict() == {"": {name: value}}
+
+
 def test_a_comment_mark_without_a_space_is_part_of_the_value():
     assert loads("color = red;bold")[""].get("color") == "red;bold"
 
EOF_114329324912
: '>>>>> Start Test Output'
python -m pytest -rA -p no:cacheprovider tests/test_convert.py tests/test_interpolate.py tests/test_layers.py tests/test_model.py tests/test_reader.py tests/test_writer.py
: '>>>>> End Test Output'
git checkout f1d9b5769d63e3d9bfb27ce46f7e29f8f4c4544b tests/test_convert.py tests/test_interpolate.py tests/test_layers.py tests/test_model.py tests/test_reader.py tests/test_writer.py
