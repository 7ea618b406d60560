#!/bin/bash
set -uxo pipefail
cd /testbed
export PYTHONDONTWRITEBYTECODE=1
git status
git checkout 893320f01e74bd5561441d95e4664535d87db90c tests/test_convert.py tests/test_interpolate.py tests/test_layers.py tests/test_model.py tests/test_reader.py tests/test_roundtrip.py tests/test_writer.py
git apply -v - <<'EOF_114329324912'
diff --git a/tests/test_layers.py b/tests/test_layers.py
index 4f5468f2177035ed7ecf250e8a011bd44bbbdf56..909487302a5dfa947950fa8b01f396bdd264fa8c 100644
--- a/tests/test_layers.py
+++ b/tests/test_layers.py
@@ -47,3 +47,19 @@ def test_layers_know_the_origin():
 def test_the_origin_of_nothing():
     with pytest.raises(MissingOption, match="no layer sets 'x'"):
         Layers().origin("server", "x")
+
+
+def test_the_last_document_counts_in_any_case():
+    merged = merge(loads(DEFAULTS), loads("[server]\nHOST = example.org\n"))
+    assert dumps(merged) == "# how to listen\n[server]\nHost = example.org\nport = 80\n"
+
+
+def test_mappings_can_be_read_in_any_case():
+    assert from_mapping({"server": {"Host": "a"}})["server"].get("host") == "a"
+
+
+def test_the_origin_in_any_case():
+    user = from_mapping({"server": {"HOST": "example.org"}})
+    layers = Layers().push("defaults", loads(DEFAULTS)).push("user", user)
+    assert layers.origin("server", "Host") == layers.origin("server", "host") == "user"
+    assert layers.merged()["server"].get("host") == "example.org"
diff --git a/tests/test_model.py b/tests/test_model.py
index fc9645c39e071021465daee0fb68484e53b26f22..610b0bd8083056be0edc6e513b3f9867834e0289 100644
--- a/tests/test_model.py
+++ b/tests/test_model.py
@@ -17,6 +17,25 @@ def test_set_appends_new_options():
     assert [option.name for option in section] == ["x", "y"]
 
 
+def test_set_ignores_case():
+    document = loads("[a]\nUserName = x")
+    document["a"].set("username", "y")
+    assert document.as_dict() == {"a": {"UserName": "y"}}
+
+
+def test_what_is_set_can_be_read_in_any_case():
+    section = loads("[a]")["a"]
+    section.set("UserName", "x")
+    assert section.get("UserName") == section.get("username") == "x"
+    assert "USERNAME" in section
+
+
+def test_remove_ignores_case():
+    document = loads("[a]\nUserName = x\ny = 1")
+    document["a"].remove("USERNAME")
+    assert document.as_dict() == {"a": {"y": "1"}}
+
+
 def test_get_falls_back_to_the_default():
     assert loads("[a]\nx = 1")["a"].get("y", "none") == "none"
 
EOF_114329324912
: '>>>>> Start Test Output'
python -m pytest -rA -p no:cacheprovider tests/test_convert.py tests/test_interpolate.py tests/test_layers.py tests/test_model.py tests/test_reader.py tests/test_roundtrip.py tests/test_writer.py
: '>>>>> End Test Output'
git checkout 893320f01e74bd5561441d95e4664535d87db90c tests/test_convert.py tests/test_interpolate.py tests/test_layers.py tests/test_model.py tests/test_reader.py tests/test_roundtrip.py tests/test_writer.py
