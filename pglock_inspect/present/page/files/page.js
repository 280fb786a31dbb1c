// Keeps the page up to date: fetches it again and again, and changes only what differs.
"use strict";

const LONGEST_PAUSE = 30_000; // milliseconds, as are all times here
const PATIENCE = 10_000;

const pause = Number(document.documentElement.dataset.refresh) * 1_000;
const banner = document.getElementById("connection");
const address = location.origin + location.pathname + location.search; // fetch() refuses user:password@

let fetching = false;
let failures = 0;
let heardAt = performance.now();
let timer;

async function fetchPage() {
  const answer = await fetch(address, { cache: "no-store", signal: AbortSignal.timeout(PATIENCE) });
  if (answer.status === 401) throw new Error("the exporter asks for a password again: reload the page");
  if (!answer.ok) throw new Error(`the exporter answers with ${answer.status} ${answer.statusText}`.trim());
  const page = new DOMParser().parseFromString(await answer.text(), "text/html");
  if (!page.getElementById("page")) throw new Error("something else answers in place of the exporter");
  return page;
}

async function refresh() {
  clearTimeout(timer);
  if (fetching || document.hidden) return; // goes on when it is looked at again
  fetching = true;
  try {
    const page = await fetchPage();
    if (source(page) !== source(document)) return location.reload(); // another version of the exporter
    show(page);
    failures = 0;
    heardAt = performance.now();
  } catch (error) {
    failures += 1;
    console.info(`pglock-inspect: ${error.message}`);
    banner.dataset.why = error instanceof TypeError || error.name === "TimeoutError" ? "" : error.message;
  }
  fetching = false;
  tellAge();
  timer = setTimeout(refresh, Math.min(pause * 2 ** Math.max(failures - 1, 0), LONGEST_PAUSE));
}

function source(page) {
  return page.querySelector("script[src]").getAttribute("src");
}

function tellAge() {
  banner.hidden = failures === 0;
  document.body.classList.toggle("lost", failures > 0);
  if (failures === 0) return;
  const why = banner.dataset.why || "the exporter cannot be reached";
  const seconds = Math.round((performance.now() - heardAt) / 1_000);
  const age = seconds < 120 ? `${seconds} s` : `${Math.floor(seconds / 60)} min`;
  const text = `What is shown is ${age} old: ${why}. It is tried again by itself.`;
  if (banner.textContent !== text) banner.textContent = text;
}

function show(page) {
  if (document.title !== page.title) document.title = page.title;
  const [icon, newIcon] = [document, page].map((one) => one.querySelector("link[rel=icon]"));
  if (icon.getAttribute("href") !== newIcon.getAttribute("href")) icon.href = newIcon.getAttribute("href");

  const focused = document.activeElement;
  const selection = getSelection();
  const { anchorNode, anchorOffset, focusNode, focusOffset, isCollapsed } = selection;
  change(document.getElementById("page"), page.getElementById("page"));
  // An element that had to move lost both.
  if (focused.isConnected && document.activeElement !== focused) focused.focus({ preventScroll: true });
  if (!isCollapsed && selection.isCollapsed && anchorNode.isConnected && focusNode.isConnected) {
    const end = (node, offset) => [node, Math.min(offset, (node.data ?? node.childNodes).length)];
    selection.setBaseAndExtent(...end(anchorNode, anchorOffset), ...end(focusNode, focusOffset));
  }
}

// Makes a node equal to a new one of its kind, by as few changes as there are differences.
function change(node, wanted) {
  if (node.nodeType !== Node.ELEMENT_NODE) {
    if (node.data !== wanted.data) node.data = wanted.data;
    return;
  }
  for (const { name, value } of wanted.attributes) {
    if (node.getAttribute(name) !== value) node.setAttribute(name, value);
  }
  for (const { name } of [...node.attributes]) {
    const byReader = name === "open" && node.localName === "details";
    if (!byReader && !wanted.hasAttribute(name)) node.removeAttribute(name);
  }
  const staying = new Set(Array.from(wanted.children, (child) => child.id));
  const known = new Map();
  for (const child of [...node.children]) {
    if (!child.id) continue;
    if (staying.has(child.id)) known.set(child.id, child);
    else child.remove();
  }
  let next = node.firstChild;
  for (const child of [...wanted.childNodes]) {
    const here = child.id ? known.get(child.id) : next;
    while (child.id && here && next && next !== here && !next.id) next = without(next); // left by a neighbor
    if (!here || here.nodeName !== child.nodeName || here.id !== (child.id ?? here.id)) {
      node.insertBefore(child, next);
      continue;
    }
    if (here === next) next = next.nextSibling;
    else if (node.moveBefore) node.moveBefore(here, next);
    else node.insertBefore(here, next);
    change(here, child);
  }
  while (next) next = without(next);
}

// Removes a node and returns the one after it.
function without(node) {
  const next = node.nextSibling;
  node.remove();
  return next;
}

document.addEventListener("visibilitychange", refresh);
addEventListener("online", refresh);
setInterval(() => document.hidden || tellAge(), 1_000);
timer = setTimeout(refresh, pause);
