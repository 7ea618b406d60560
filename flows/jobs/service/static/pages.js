"use strict";

// Parts with `data-refresh` are fetched again after so many seconds, as long as the page is seen.
function refreshed(part) {
  const seconds = Number(part.dataset.refresh);
  setTimeout(async () => {
    let next = part;
    if (!document.hidden) {
      next = (await renewed([part.id]))[0] || part;
    }
    if (next.dataset.refresh) refreshed(next);
  }, seconds * 1000);
}

// Parts as they were last fetched. What a person opened meanwhile is no change of a part.
const fetched = new Map();

// Replaces parts of this page by those of the page as it is now. The focus stays where it is, and
// what is open stays open.
async function renewed(ids) {
  let html;
  try {
    const answer = await fetch(location.href, {headers: {Accept: "text/html"}});
    if (!answer.ok) return [];
    html = await answer.text();
  } catch (error) {
    return [];
  }
  const page = new DOMParser().parseFromString(html, "text/html");
  return ids.map((id) => {
    const before = document.getElementById(id);
    const after = page.getElementById(id);
    if (!before || !after) return before;
    const text = after.outerHTML;
    if ((fetched.get(id) ?? before.outerHTML) === text) return before;
    fetched.set(id, text);
    const opened = new Set([...before.querySelectorAll("details[open] > summary")].map(titled));
    for (const summary of after.querySelectorAll("details > summary")) {
      if (opened.has(titled(summary))) summary.parentElement.open = true;
    }
    const focused = before.contains(document.activeElement) ? document.activeElement.id : "";
    before.replaceWith(after);
    if (focused) document.getElementById(focused)?.focus();
    return after;
  });
}

function titled(summary) {
  return summary.textContent;
}

function dollars(amount) {
  if (!amount) return "$0";
  return "$" + (amount >= 9.995 ? amount.toFixed(2) : String(Number(amount.toPrecision(3))));
}

// What is unknown is never shown as 0.
function sum(cost, unpriced, calls) {
  if (unpriced === calls) return "unknown";
  return (unpriced ? "\u2265 " : "") + dollars(cost);
}

// Follows a job. Whatever the socket repeats after a new connection is known by its key.
function follow(log) {
  const steps = document.getElementById("steps");
  const connection = document.getElementById("connection");
  const known = new Set([...steps.children].map((item) => item.dataset.key));
  let cost = Number(log.dataset.cost);
  let calls = Number(log.dataset.calls);
  let unpriced = Number(log.dataset.unpriced);
  let state = "";
  let wait_s = 0.5;

  function add(event) {
    if (known.has(event.key)) return;
    known.add(event.key);
    const atEnd = log.scrollTop + log.clientHeight >= log.scrollHeight - 8;
    steps.append(item(event));
    if (atEnd) log.scrollTop = log.scrollHeight;
    if (event.kind === "model") {
      calls += 1;
      cost += event.cost_usd || 0;
      unpriced += event.cost_usd === null ? 1 : 0;
      document.getElementById("calls").textContent = calls;
      document.getElementById("cost").textContent = sum(cost, unpriced, calls);
    }
  }

  function open() {
    const scheme = location.protocol === "https:" ? "wss:" : "ws:";
    const socket = new WebSocket(`${scheme}//${location.host}/ws/${log.dataset.job}`);
    let ended = false;
    socket.onopen = () => { wait_s = 0.5; connection.textContent = "Following the job."; };
    socket.onmessage = ({data}) => {
      const event = JSON.parse(data);
      if (event.type === "step") add(event);
      if (event.type === "status") {
        const now = JSON.stringify([event.job.state, event.job.detail, event.asks]);
        if (state && state !== now) renewed(["facts", "asks", "evidence", "patch", "attempts"]);
        state = now;
      }
      if (event.type === "end") {
        ended = true;
        connection.textContent = "The job has ended.";
        renewed(["facts", "asks", "evidence", "patch", "attempts"]);
      }
    };
    socket.onclose = () => {
      if (ended) return;
      connection.textContent = "The connection is lost. Connecting again.";
      setTimeout(open, wait_s * 1000);
      wait_s = Math.min(wait_s * 2, 10);
    };
  }
  open();
}

function element(name, text, className) {
  const made = document.createElement(name);
  made.textContent = text;
  if (className) made.className = className;
  return made;
}

function item(event) {
  const summary = document.createElement("summary");
  const parts = [
    element("time", event.at ? event.at.slice(11, 19) : ""),
    element("span", event.arm, "arm-name"),
    element("b", event.name),
    document.createTextNode(event.did),
    element("span", event.facts, "quiet"),
  ];
  for (const part of parts) summary.append(part, " ");
  const details = document.createElement("details");
  details.append(summary);
  const texts = [["Input of the step", event.asked], ["Result of the step", event.result || "(nothing)"]];
  for (const [label, text] of texts) {
    if (!text) continue;
    const shown = element("pre", text);
    shown.tabIndex = 0;
    shown.setAttribute("role", "region");
    shown.setAttribute("aria-label", label);
    details.append(shown);
  }
  const made = document.createElement("li");
  made.dataset.key = event.key;
  made.append(details);
  return made;
}

for (const part of document.querySelectorAll("[data-refresh]")) refreshed(part);
const live = document.querySelector("[data-job]");
if (live) follow(live);
