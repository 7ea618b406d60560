#!/bin/bash
set -uxo pipefail
cd /testbed
export PYTHONDONTWRITEBYTECODE=1
git status
git checkout ddc8b7991181f8c16db0dd9701479636b5d712f4 tests/test_convert.py tests/test_interpolate.py tests/test_layers.py tests/test_model.py tests/test_reader.py tests/test_roundtrip.py tests/test_writer.py
git apply -v - <<'EOF_114329324912'
diff --git a/tests/test_environment.py b/tests/test_environment.py
new file mode 100644
index 0000000000000000000000000000000000000000..9b3e8c0af43813f86c1542062ff7a96b588a485a
--- /dev/null
+++ b/tests/test_environment.py
@@ -0,0 +1,57 @@
+import tidyini
+
+ENVIRON = {
+    "MYAPP_SERVER__PORT": "8080",
+    "MYAPP_SERVER__BIND_HOST": "0.0.0.0",
+    "MYAPP_DEBUG": "yes",
+    "MYAPP_LOG_LEVEL": "info",
+    "MYAPPLICATION_X": "1",
+    "OTHER_MYAPP_X": "1",
+    "myapp_y": "1",
+    "PATH": "/bin",
+}
+
+
+def test_sections_and_options():
+    document = tidyini.from_environ("MYAPP", ENVIRON)
+    assert document.as_dict() == {
+        "": {"debug": "yes", "log_level": "info"},
+        "server": {"port": "8080", "bind_host": "0.0.0.0"},
+    }
+
+
+def test_only_the_first_separator_separates():
+    document = tidyini.from_environ("A", {"A_DB__POOL__SIZE": "5"})
+    assert document.as_dict() == {"db": {"pool__size": "5"}}
+
+
+def test_variables_without_an_option_name_are_left_out():
+    document = tidyini.from_environ("A", {"A_": "1", "A_DB__": "2", "A": "3"})
+    assert document.as_dict() == {}
+
+
+def test_values_are_taken_as_they_are():
+    document = tidyini.from_environ("A", {"A_X": ' "a" # b ', "A_EMPTY": ""})
+    assert document.as_dict() == {"": {"x": ' "a" # b ', "empty": ""}}
+
+
+def test_the_order_does_not_depend_on_the_environment():
+    backwards = dict(reversed(ENVIRON.items()))
+    assert tidyini.dumps(tidyini.from_environ("MYAPP", ENVIRON)) == tidyini.dumps(
+        tidyini.from_environ("MYAPP", backwards)
+    )
+
+
+def test_the_process_environment_is_the_default(monkeypatch):
+    monkeypatch.setenv("TIDYINI_TEST_WEB__HOST", "example.org")
+    assert tidyini.from_environ("TIDYINI_TEST").as_dict() == {"web": {"host": "example.org"}}
+
+
+def test_as_a_layer():
+    layers = (
+        tidyini.Layers()
+        .push("file", tidyini.loads("[server]\nPort = 80\nhost = localhost\n"))
+        .push("environment", tidyini.from_environ("MYAPP", {"MYAPP_SERVER__PORT": "8080"}))
+    )
+    assert layers.merged().as_dict() == {"server": {"Port": "8080", "host": "localhost"}}
+    assert layers.origin("server", "port") == "environment"
EOF_114329324912
: '>>>>> Start Test Output'
python -m pytest -rA -p no:cacheprovider tests/test_convert.py tests/test_environment.py tests/test_interpolate.py tests/test_layers.py tests/test_model.py tests/test_reader.py tests/test_roundtrip.py tests/test_writer.py
: '>>>>> End Test Output'
git checkout ddc8b7991181f8c16db0dd9701479636b5d712f4 tests/test_convert.py tests/test_interpolate.py tests/test_layers.py tests/test_model.py tests/test_reader.py tests/test_roundtrip.py tests/test_writer.py
rm -f tests/test_environment.py
