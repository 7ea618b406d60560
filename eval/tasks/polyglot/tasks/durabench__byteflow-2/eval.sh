#!/bin/bash
set -uxo pipefail
cd /testbed
git status
git checkout 763c6138e6e34651cbf54e5b0c9d2aa51a387fbb size_test.go window_test.go
git apply -v - <<'EOF_114329324912'
diff --git a/window_test.go b/window_test.go
index 42d9115b155cda2060dcfe086b8bc5bcca47b168..a2d4b283478767d13c7f8cdac399e0fcf0bfb33c 100644
--- a/window_test.go
+++ b/window_test.go
@@ -40,3 +40,21 @@ func TestWindowCountsLateSizes(t *testing.T) {
 	w.Add(after(5), 2)
 	expectTotal(t, w, 21, 3)
 }
+
+func TestWindowForgetsAfterAPause(t *testing.T) {
+	w := NewWindow(time.Minute, 6)
+	w.Add(after(0), 10)
+	w.Add(after(10), 20)
+	expectTotal(t, w, 65, 30)
+	expectTotal(t, w, 75, 20)
+	expectTotal(t, w, 3600, 0)
+}
+
+func TestWindowAddsAfterAPause(t *testing.T) {
+	w := NewWindow(time.Minute, 6)
+	for seconds := 0; seconds < 60; seconds += 10 {
+		w.Add(after(seconds), 1)
+	}
+	w.Add(after(95), 5)
+	expectTotal(t, w, 95, 8)
+}
EOF_114329324912
: '>>>>> Start Test Output'
go test -v -count=1 ./...
: '>>>>> End Test Output'
git checkout 763c6138e6e34651cbf54e5b0c9d2aa51a387fbb size_test.go window_test.go
