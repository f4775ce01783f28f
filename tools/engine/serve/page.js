"use strict";
const $ = id => document.getElementById(id);
const FIELDS = ["system", "temperature", "top_p", "max_tokens"];
let talks = [], messages = [], running = null, wanted = "";

// ---- what is kept: conversations and settings, but no key ----

function save() {
  talks = talks.filter(t => t.messages.length || t.messages === messages).slice(-50);
  const kept = { talks, now: talks.findIndex(t => t.messages === messages), model: wanted };
  for (const name of FIELDS) kept[name] = $(name).value;
  for (;;)
    try {
      return localStorage.setItem("kt", JSON.stringify(kept));
    } catch (error) {  // it is full, or forbidden
      if (!kept.talks.length) return;
      kept.talks.shift();
      kept.now--;
    }
}

function load() {
  let kept = {};
  try {
    kept = JSON.parse(localStorage.getItem("kt")) || {};
  } catch (error) { }
  for (const name of FIELDS) $(name).value = kept[name] || "";
  wanted = kept.model;
  talks = (kept.talks || []).filter(t => Array.isArray(t.messages));
  open(talks[kept.now]);
}

function list() {
  $("talks").replaceChildren(...talks.map((talk, i) => {
    const first = talk.messages[0];
    const option = new Option((first ? first.content : "New").slice(0, 40), i);
    option.selected = talk.messages === messages;
    return option;
  }));
}

function open(talk) {
  if (running) running.abort();
  running = null;
  if (!talk) talks.push(talk = { messages: [] });
  messages = talk.messages;
  $("talk").replaceChildren();
  for (const message of messages) show(bubble(message.role), message);
  $("talk").scrollTop = $("talk").scrollHeight;
  busy(false);
  list();
}

// ---- texts: made of nodes, never of HTML ----

function make(tag, parent, name, text) {
  const node = document.createElement(tag);
  if (name) node.className = name;
  if (text !== undefined) node.textContent = text;
  parent.append(node);
  return node;
}

function inline(parent, text) {
  // Each part ends where its mark comes again, so that no text takes more than linear time.
  const marks = /``((?:[^`]|`(?!`))+)``|`([^`]+)`|\*\*((?:[^*]|\*(?!\*))+)\*\*|\*(?=\S)([^*]*[^*\s])\*|\[([^[\]\n]*)\]\((https?:\/\/[^\s()]+)\)/g;
  let at = 0;
  for (const found of text.matchAll(marks)) {
    parent.append(text.slice(at, found.index));
    at = found.index + found[0].length;
    if (found[1] || found[2]) make("code", parent, "", found[1] || found[2]);
    else if (found[3]) inline(make("strong", parent), found[3]);
    else if (found[4]) inline(make("em", parent), found[4]);
    else {
      const link = make("a", parent, "", found[5] || found[6]);
      link.href = found[6];
      link.target = "_blank";
      link.rel = "noopener noreferrer";
    }
  }
  parent.append(text.slice(at));
}

function code(parent, language, text) {
  const figure = make("figure", parent), head = make("figcaption", figure, "", language);
  const button = make("button", head, "", "Copy");
  make("code", make("pre", figure), "", text);
  button.onclick = async () => {
    try {
      await navigator.clipboard.writeText(text);
      button.textContent = "Copied";
    } catch (error) {  // not allowed without https: the text is marked, to be copied by hand
      getSelection().selectAllChildren(figure.querySelector("code"));
      button.textContent = "Marked";
    }
    setTimeout(() => { button.textContent = "Copy"; }, 2000);
  };
}

function row(table, tag, line) {
  const cells = make("tr", table);
  for (const cell of line.trim().replace(/^\||\|$/g, "").split("|")) inline(make(tag, cells), cell.trim());
}

// Markdown of models: code, headings, lists, quotes, tables, rules, paragraphs.
function markdown(parent, text, depth = 0) {
  if (depth > 20) return inline(parent, text);
  const lines = text.split("\n");
  const take = (i, test) => {
    let end = i;
    while (end < lines.length && test(lines[end])) end++;
    return end;
  };
  for (let i = 0, end; i < lines.length; i = end) {
    const line = lines[i];
    let found;
    end = i + 1;
    if (!line.trim()) continue;
    if ((found = /^ *(```+|~~~+) *([^\s`]*)/.exec(line))) {
      end = take(i + 1, l => !l.trim().startsWith(found[1]));
      code(parent, found[2], lines.slice(i + 1, end).join("\n"));
      end++;
    } else if ((found = /^(#{1,6}) +(.*)/.exec(line))) {
      inline(make("h" + Math.min(found[1].length, 4), parent), found[2]);
    } else if (/^ *([-*_])( *\1){2,} *$/.test(line)) {
      make("hr", parent);
    } else if (/^ *>/.test(line)) {
      end = take(i, l => /^ *>/.test(l));
      markdown(make("blockquote", parent), lines.slice(i, end).map(l => l.replace(/^ *> ?/, "")).join("\n"), depth + 1);
    } else if (/^ *\|/.test(line) && /^ *\|?[ :|-]*-[ :|-]*$/.test(lines[i + 1] || "")) {
      const table = make("table", parent);
      end = take(i, l => /^ *\|/.test(l));
      row(table, "th", line);
      for (const l of lines.slice(i + 2, end)) row(table, "td", l);
    } else if ((found = /^( *)([-*+]|(\d{1,9})[.)]) +/.exec(line))) {
      const indent = found[0].length, items = make(found[3] ? "ol" : "ul", parent);
      if (found[3]) items.start = Number(found[3]);
      const begins = new RegExp("^ {" + found[1].length + "}" + (found[3] ? "\\d{1,9}[.)]" : "[-*+]") + " +");
      while (end <= lines.length && begins.test(lines[end - 1])) {
        const first = end - 1;
        end = take(end, l => !l.trim() || l.search(/\S/) > found[1].length);
        while (!lines[end - 1].trim()) end--;
        const next = take(end, l => !l.trim());
        const body = lines.slice(first, end).map((l, n) => n ? l.slice(Math.min(l.search(/\S|$/), indent))
          : l.replace(begins, ""));
        const item = make("li", items), split = body.findIndex((l, n) => n && /^ *([-*+]|\d+[.)]|```|>|$)/.test(l));
        inline(item, (split < 0 ? body : body.slice(0, split)).join("\n"));
        if (split > 0) markdown(item, body.slice(split).join("\n"), depth + 1);
        if (next >= lines.length || !begins.test(lines[next])) break;
        end = next + 1;
      }
    } else {
      end = take(i, l => l.trim() && !/^ *(```|~~~|#{1,6} |>|[-*+] |\d{1,9}[.)] )/.test(l));
      end = Math.max(end, i + 1);
      const paragraph = make("p", parent, "plain");
      inline(paragraph, lines.slice(i, end).join("\n"));
    }
  }
}

// ---- the conversation ----

function bubble(role) {
  const box = make("article", $("talk"), role);
  make("b", box, "", role);
  const view = { box };
  if (role === "assistant") {
    view.folded = make("details", box);
    view.folded.hidden = true;
    make("summary", view.folded, "", "Reasoning");
    view.reasoning = make("div", view.folded, "text plain");
  }
  view.text = make("div", box, role === "user" ? "text plain" : "text");
  view.speed = make("div", box, "speed");
  return view;
}

// Whoever has scrolled up stays there.
function show(view, message) {
  const talk = $("talk"), follows = talk.scrollHeight - talk.scrollTop - talk.clientHeight < 40;
  if (view.reasoning) {
    view.folded.hidden = !message.reasoning;
    if (message.reasoning) view.reasoning.textContent = message.reasoning;
    view.text.replaceChildren();
    markdown(view.text, message.content);
  } else {
    view.text.textContent = message.content;
  }
  if (follows) talk.scrollTop = talk.scrollHeight;
}

function headers() {
  const all = { "Content-Type": "application/json" };
  if ($("key").value) all.Authorization = "Bearer " + $("key").value;
  return all;
}

function busy(is) {
  $("send").disabled = is;
  $("stop").disabled = !is;
  $("again").disabled = is || !messages.some(m => m.role === "user");
}

function request() {
  const body = { messages: messages.map(m => ({ role: m.role, content: m.content })), stream: true,
    stream_options: { include_usage: true, continuous_usage_stats: true } };
  if (!$("models").hidden) body.model = $("models").value;
  if ($("system").value) body.messages.unshift({ role: "system", content: $("system").value });
  for (const name of FIELDS.slice(1))
    if ($(name).value !== "") body[name] = Number($(name).value);
  return body;
}

// Calls `each` with every event's data; false: the stream broke off.
async function read(reply, each) {
  const reader = reply.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "", whole = false;
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return whole;
    const lines = (rest + value).split("\n");
    rest = lines.pop();
    for (const line of lines)
      if (line === "data: [DONE]") whole = true;
      else if (line.startsWith("data: ")) each(JSON.parse(line.slice(6)));
  }
}

function speedOf(chunk, first) {
  const t = chunk.timings, u = chunk.usage;
  if (!u) return "";
  if (!t) {
    const seconds = (performance.now() - first) / 1000;
    return u.completion_tokens > 1 && seconds > 0 ? `${((u.completion_tokens - 1) / seconds).toFixed(1)} tokens/s` : "";
  }
  return `${u.prompt_tokens} tokens read (${u.prompt_tokens_details.cached_tokens} cached) in ` +
    `${(t.prompt_ms / 1000).toFixed(2)} s, ${u.completion_tokens} written, ${t.predicted_per_second.toFixed(1)} tokens/s`;
}

async function answer() {
  const view = bubble("assistant"), message = { role: "assistant", content: "", reasoning: "" };
  const mine = messages, control = running = new AbortController();  // another conversation may be opened
  let first = 0, failure = "", frame = 0;
  busy(true);
  $("talk").scrollTop = $("talk").scrollHeight;
  try {
    const reply = await fetch("v1/chat/completions",
      { method: "POST", headers: headers(), body: JSON.stringify(request()), signal: control.signal });
    if (!reply.ok) throw new Error((await reply.json()).error.message);
    const whole = await read(reply, chunk => {
      if (chunk.error) throw new Error(chunk.error.message);
      const choice = chunk.choices[0], delta = choice ? choice.delta : {};
      message.reasoning += delta.reasoning_content || "";
      message.content += delta.content || "";
      if (delta.content || delta.reasoning_content) first = first || performance.now();
      view.speed.textContent = speedOf(chunk, first) || view.speed.textContent;
      if (choice && choice.finish_reason === "length") failure = "The answer is cut: the limit of tokens is reached.";
      frame = frame || requestAnimationFrame(() => {
        frame = 0;
        show(view, message);
      });
    });
    if (!whole) failure = "The server broke off.";
  } catch (error) {
    failure = error.name === "AbortError" ? "Stopped." : error instanceof TypeError ? "The server cannot be reached."
      : error.message;
  }
  cancelAnimationFrame(frame);
  show(view, message);
  if (failure) make("div", view.box, "error", failure);
  if (message.content || message.reasoning) mine.push(message);
  else if (mine.length && mine[mine.length - 1].role === "user") {  // not asked: it is for the next try
    const asked = mine.pop();
    if (mine === messages && !$("say").value) $("say").value = asked.content;
  }
  save();
  if (running !== control) return;
  running = null;
  busy(false);
  list();
}

function send() {
  const text = $("say").value.trim();
  if (!text || running) return;
  $("say").value = "";
  messages.push({ role: "user", content: text });
  show(bubble("user"), messages[messages.length - 1]);
  save();
  list();
  answer();
}

$("send").onclick = send;
$("stop").onclick = () => running && running.abort();
$("again").onclick = () => {
  while (messages.length && messages[messages.length - 1].role === "assistant") messages.pop();
  const last = [...$("talk").children].findLastIndex(n => n.className === "user");
  for (const node of [...$("talk").children].slice(last + 1)) node.remove();
  answer();
};
$("new").onclick = () => {
  open(talks.find(t => !t.messages.length));
  save();
};
$("clear").onclick = () => {
  talks = talks.filter(t => t.messages !== messages);
  open(talks[talks.length - 1]);
  save();
};
$("talks").onchange = () => {
  open(talks[Number($("talks").value)]);
  save();
};
$("models").onchange = () => {
  wanted = document.title = $("models").value;
  save();
};
for (const name of FIELDS) $(name).onchange = save;
$("say").onkeydown = event => {
  if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
    event.preventDefault();
    send();
  }
};

// ---- the server: asked again and again, so that its end and its return are seen ----

// Of several models one can be chosen; further names of the same one are left out.
function offer(models) {
  const names = models.filter(m => m.root === m.id).map(m => m.id);
  $("models").replaceChildren(...names.map(name => new Option(name)));
  if (names.includes(wanted)) $("models").value = wanted;
  $("models").hidden = names.length < 2;
  $("model").hidden = names.length > 1;
  $("model").textContent = document.title = $("models").value;
}

async function look() {
  let wait = 1000;
  try {
    const health = await (await fetch("health", { signal: AbortSignal.timeout(5000) })).json();
    const isOk = health.status === "ok";
    if (isOk && $("state").textContent !== "ok") {
      const models = await fetch("v1/models", { headers: headers() });
      if (models.ok) offer((await models.json()).data);
      else $("settings").open = true;
    }
    $("state").textContent = health.progress === undefined ? health.status
      : `${health.status} ${(100 * health.progress).toFixed(0)} %`;
    $("state").className = "";
    if (isOk) wait = 5000;
  } catch (error) {
    $("state").textContent = "The server cannot be reached.";
    $("state").className = "bad";
  }
  setTimeout(look, wait);
}
$("key").onchange = () => { $("state").textContent = ""; };
load();
look();
