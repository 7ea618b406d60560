#!/bin/bash
set -uxo pipefail
cd /testbed
git status
git checkout b5730b2fdd1608ff49cbf54b1a848a85efd63148 test/pattern.test.js test/router.test.js
git apply -v - <<'EOF_114329324912'
diff --git a/test/router.test.js b/test/router.test.js
index fb56ac67485ff13b7ebc569d1b62bfe16a29aac0..4931a24142901481c468c3a6c7d7e7c04b64b653 100644
--- a/test/router.test.js
+++ b/test/router.test.js
@@ -35,3 +35,21 @@ test('build a route', () => {
 test('build an unknown route', () => {
   assert.throws(() => routes().build('post'), RangeError);
 });
+
+test('a parameter with signs of a path is built and matched', () => {
+  for (const name of ['ada lovelace', 'a/b', 'what?', '100%', '#1', 'Zo\u00eb']) {
+    const path = routes().build('user', { name });
+    assert.match(path, /^\/users\/[\w%.~-]+$/);
+    assert.deepStrictEqual(routes().match(path), { route: 'user', params: { name } });
+  }
+});
+
+test('the rest of a path keeps its slashes', () => {
+  const path = routes().build('file', { path: 'my notes/a?.txt' });
+  assert.strictEqual(path, '/files/my%20notes/a%3F.txt');
+  assert.deepStrictEqual(routes().match(path).params, { path: 'my notes/a?.txt' });
+});
+
+test('a path with a broken code matches no route', () => {
+  assert.strictEqual(routes().match('/users/100%'), null);
+});
EOF_114329324912
: '>>>>> Start Test Output'
node --test --test-reporter=tap test/pattern.test.js test/router.test.js
: '>>>>> End Test Output'
git checkout b5730b2fdd1608ff49cbf54b1a848a85efd63148 test/pattern.test.js test/router.test.js
