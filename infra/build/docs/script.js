// Search, copy buttons, the menu, and what the page remembers. Without it the page is complete.
const all = (selector, within = document) => [...within.querySelectorAll(selector)]
const field = document.querySelector("[type=search]"), found = document.getElementById("found")
const contents = document.getElementById("contents")

// Searchable units, each with a name and a text: sections, rows of tables, fields.
let units
function collect() {
  units = all("section, tbody tr, dt").map((part) => {
    const heading = part.closest("section").querySelector("h1, h2, h3")
    const named = { SECTION: [heading], TR: [...part.children].slice(0, 2), DT: [part.firstElementChild] }[part.tagName]
    const text = part.tagName === "DT" ? part.textContent + part.nextElementSibling.textContent : part.textContent
    const name = named.map((each) => each.textContent).join(" "), also = part.dataset.also ?? ""
    return { part, heading, name, also, text: `${part.id} ${also} ${text}`.toLowerCase() }
  })
}

// First what has the words in its name or among its other words: operations and sections before rows and fields.
// Then what has the words as parts of its name, then what has them in its text, by their number.
function worth({ part, name, also, text }, wanted, words) {
  if (!words.every((word) => text.includes(word))) return 0
  const named = name.toLowerCase(), own = `${named} ${also}`.split(/[\s:]+/), isSection = part.tagName === "SECTION"
  const rank = (isSection ? 50 : 0) + Math.min(20, text.split(words[0]).length)
  if (words.every((word) => own.includes(word))) return 300 + rank + (part.matches(".group") ? 25 : 0)
  return named.includes(wanted) ? 100 + rank : isSection && part.matches(".operation") ? rank : Math.min(20, rank)
}

function search() {
  const wanted = field.value.trim().toLowerCase(), words = wanted.split(/\s+/)
  units ?? collect()
  const hits = wanted ? units.map((unit) => [worth(unit, wanted, words), unit]).filter(([worth]) => worth) : []
  hits.sort(([one], [other]) => other - one)
  found.hidden = !wanted
  found.replaceChildren(hits.length ? `${hits.length} found` : "Nothing found", ...hits.slice(0, 30).map(([, unit]) => entry(unit)))
}

function entry({ part, heading, name }) {
  const link = document.createElement("a"), where = document.createElement("small")
  link.href = heading.firstElementChild.hash
  link.onclick = () => setTimeout(() => part.scrollIntoView())
  where.textContent = part.tagName === "SECTION" ? part.querySelector(".path")?.textContent ?? "" : heading.textContent
  link.append(name, where)
  return link
}

field.form.hidden = false
field.oninput = search
field.form.onsubmit = (event) => { event.preventDefault(); found.querySelector("a")?.click() }
found.onclick = () => { found.hidden = true }
field.onfocus = () => { found.hidden = !field.value }
document.onkeydown = (event) => {
  if (event.key === "Escape") found.hidden = true
  if (event.key === "/" && !/INPUT/.test(event.target.tagName)) { event.preventDefault(); field.focus() }
}
contents.onclick = (event) => { if (event.target.closest("a") && contents.matches(":popover-open")) contents.hidePopover() }

// The contents show the operations of the group that is read, and mark what is read.
const links = new Map(all("a", contents).map((link) => [link.hash.slice(1), link]))
const inView = new Set()
contents.classList.add("folded")
const observer = new IntersectionObserver((changes) => {
  for (const { target, isIntersecting } of changes) inView[isIntersecting ? "add" : "delete"](target)
  const read = all("section").find((section) => inView.has(section) && links.has(section.id))
  all("[aria-current]", contents).forEach((link) => link.removeAttribute("aria-current"))
  all(".here", contents).forEach((item) => item.classList.remove("here"))
  const link = read && links.get(read.id)
  link?.setAttribute("aria-current", "true")
  for (let item = link?.closest("li"); item; item = item.parentElement.closest("li")) item.classList.add("here")
  if (link?.checkVisibility() && !contents.matches(":hover, :focus-within")) link.scrollIntoView({ block: "nearest" })
}, { rootMargin: "-80px 0px -60% 0px" })
for (const section of all("section")) observer.observe(section)

// The address of the API is that of this page. The chosen language stays.
const base = location.href.replace(/\/docs([?#].*)?$/, "")
for (const code of all("code")) {
  if (code.textContent.includes("https://api.example.com")) code.textContent = code.textContent.replaceAll("https://api.example.com", base)
}
const languages = all("[name=language]")
try {
  const kept = languages.find(({ value }) => value === localStorage.language)
  if (kept) kept.checked = true
  for (const input of languages) input.onchange = () => { localStorage.language = input.value }
} catch { /* the browser keeps nothing for this page */ }

for (const sample of navigator.clipboard ? all("pre") : []) {
  const { textContent } = sample
  const button = Object.assign(document.createElement("button"), { className: "copy", textContent: "Copy" })
  button.onclick = () => navigator.clipboard.writeText(textContent).then(() => { button.textContent = "Copied" })
  sample.prepend(button)
}
