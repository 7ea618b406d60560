#!/bin/bash
set -uxo pipefail
cd /testbed
export PYTHONDONTWRITEBYTECODE=1
git status
git checkout af0402d0ac7e8e8b594b0bd9b48e241d3659dba6 tests/conftest.py tests/test_durations.py tests/test_interval.py tests/test_planner.py tests/test_recurrence.py tests/test_sets.py
git apply -v - <<'EOF_114329324912'
diff --git a/tests/test_iso.py b/tests/test_iso.py
new file mode 100644
index 0000000000000000000000000000000000000000..8f91872a0b198a5cf0292a36eaf0309492532ca5
--- /dev/null
+++ b/tests/test_iso.py
@@ -0,0 +1,83 @@
+from datetime import datetime, timedelta
+
+import pytest
+
+import slotwise
+from slotwise import EmptyInterval, Interval
+
+
+@pytest.mark.parametrize(
+    "text",
+    ["2025-03-03T09:00/2025-03-03T10:30", "2025-03-03T09:00/PT1H30M", "PT90M/2025-03-03T10:30"],
+    ids=["start-end", "start-duration", "duration-end"],
+)
+def test_all_forms(at, text):
+    assert slotwise.parse_iso(text) == at("9-10:30")
+
+
+@pytest.mark.parametrize(
+    ("text", "expected"),
+    [
+        ("P1D", timedelta(days=1)),
+        ("P2W", timedelta(weeks=2)),
+        ("P1DT12H", timedelta(hours=36)),
+        ("PT45S", timedelta(seconds=45)),
+        ("P1W1DT1H1M1S", timedelta(days=8, hours=1, minutes=1, seconds=1)),
+    ],
+    ids=["day", "weeks", "day-and-hours", "seconds", "all"],
+)
+def test_durations(text, expected):
+    assert slotwise.parse_iso(f"2025-03-03T00:00/{text}").duration == expected
+
+
+@pytest.mark.parametrize(
+    "text",
+    [
+        "2025-03-03T09:00",
+        "2025-03-03T09:00/",
+        "/2025-03-03T09:00",
+        "2025-03-03T09:00/P",
+        "2025-03-03T09:00/PT",
+        "2025-03-03T09:00/P1DT",
+        "2025-03-03T09:00/PT1D",
+        "2025-03-03T09:00/P1M",
+        "PT1H/PT2H",
+        "soon/2025-03-03T09:00",
+        "2025-03-03T09:00Z/PT1H",
+    ],
+    ids=[
+        "no-slash",
+        "no-end",
+        "no-start",
+        "empty-duration",
+        "empty-time",
+        "empty-time-after-days",
+        "days-as-time",
+        "months",
+        "two-durations",
+        "words",
+        "time-zone",
+    ],
+)
+def test_not_an_interval(text):
+    with pytest.raises(slotwise.FormatError):
+        slotwise.parse_iso(text)
+
+
+def test_an_interval_is_never_empty():
+    with pytest.raises(EmptyInterval):
+        slotwise.parse_iso("2025-03-03T09:00/PT0S")
+
+
+def test_format(at):
+    assert slotwise.format_iso(at("9-10:30")) == "2025-03-03T09:00/2025-03-03T10:30"
+
+
+@pytest.mark.parametrize(
+    "start",
+    [datetime(2025, 3, 3), datetime(2025, 3, 3, 9, 0, 5), datetime(2025, 3, 3, 9, 0, 0, 250)],
+    ids=["day", "seconds", "microseconds"],
+)
+def test_what_is_written_is_read(start):
+    interval = Interval.lasting(start, timedelta(hours=25))
+    assert slotwise.parse_iso(slotwise.format_iso(interval)) == interval
EOF_114329324912
: '>>>>> Start Test Output'
python -m pytest -rA -p no:cacheprovider tests/test_durations.py tests/test_interval.py tests/test_iso.py tests/test_planner.py tests/test_recurrence.py tests/test_sets.py
: '>>>>> End Test Output'
git checkout af0402d0ac7e8e8b594b0bd9b48e241d3659dba6 tests/conftest.py tests/test_durations.py tests/test_interval.py tests/test_planner.py tests/test_recurrence.py tests/test_sets.py
rm -f tests/test_iso.py
