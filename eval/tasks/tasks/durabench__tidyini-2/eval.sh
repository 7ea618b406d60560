#!/bin/bash
set -uxo pipefail
cd /testbed
export PYTHONDONTWRITEBYTECODE=1
git status
git checkout 8fb49f487901a7b2ebacf697617c7160b5ae331b tests/test_convert.py tests/test_interpolate.py tests/test_layers.py tests/test_model.py tests/test_reader.py tests/test_writer.py
git apply -v - <<'EOF_114329324912'
diff --git a/tests/test_roundtrip.py b/tests/test_roundtrip.py
new file mode 100644
index 0000000000000000000000000000000000000000..ffd6f7359637a53edc55053aece436f9880d058c
--- /dev/null
+++ b/tests/test_roundtrip.py
@@ -0,0 +1,76 @@
+import random
+
+import pytest
+
+from tidyini.model import Document
+from tidyini.reader import load, loads
+from tidyini.writer import dump, dumps
+
+ALPHABET = "ab \\\"'nrt;#=:[]${}\n\r\t\x0b\x0c\x1c\x85\u2028ä"
+
+
+def document_of(value):
+    document = Document()
+    document.section("s").set("before", "1")
+    document["s"].set("name", value)
+    document["s"].set("after", "2")
+    return document
+
+
+@pytest.mark.parametrize(
+    "value",
+    [
+        "",
+        "plain",
+        "C:\\new\\table ; on the share",
+        " \\n ",
+        '"quoted"',
+        '"',
+        'say "hi"',
+        "ends with \\",
+        " ends with \\ ",
+        "one\r\ntwo",
+        "lone\rreturn",
+        "page\x0cbreak",
+        "line\u2028separator",
+        "\xa0",
+    ],
+    ids=[
+        "empty",
+        "plain",
+        "path-and-comment",
+        "backslash-n",
+        "quoted",
+        "one-quote",
+        "quotes-inside",
+        "backslash-at-end",
+        "quoted-backslash-at-end",
+        "crlf",
+        "carriage-return",
+        "form-feed",
+        "line-separator",
+        "no-break-space",
+    ],
+)
+def test_what_is_written_is_read(value):
+    document = document_of(value)
+    assert loads(dumps(document)).as_dict() == document.as_dict()
+
+
+def test_any_value_survives_a_file(tmp_path):
+    path = tmp_path / "values.ini"
+    generator = random.Random(1)
+    document = Document()
+    for number in range(500):
+        value = "".join(generator.choices(ALPHABET, k=generator.randrange(8)))
+        document.section("s").set(f"v{number}", value)
+    dump(document, path)
+    assert load(path).as_dict() == document.as_dict()
+
+
+def test_unknown_escapes_stay():
+    assert loads(r'x = "\d+\."')[""].get("x") == r"\d+\."
+
+
+def test_old_line_breaks_end_a_line():
+    assert loads("a = 1\rb = 2\r\nc = 3").as_dict() == {"": {"a": "1", "b": "2", "c": "3"}}
EOF_114329324912
: '>>>>> Start Test Output'
python -m pytest -rA -p no:cacheprovider tests/test_convert.py tests/test_interpolate.py tests/test_layers.py tests/test_model.py tests/test_reader.py tests/test_roundtrip.py tests/test_writer.py
: '>>>>> End Test Output'
git checkout 8fb49f487901a7b2ebacf697617c7160b5ae331b tests/test_convert.py tests/test_interpolate.py tests/test_layers.py tests/test_model.py tests/test_reader.py tests/test_writer.py
rm -f tests/test_roundtrip.py
