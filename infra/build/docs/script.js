// Search, copy buttons and the menu. Without it the page is complete.
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
    const name = named.map((each) => each.textContent).join(" ")
    return { part, heading, name, text: `${part.id} ${text}`.toLowerCase() }
  })
}

// An exact match of a word in the name ranks first, then a part of the name, then the number of occurrences.
function worth({ part, name, text }, wanted, words) {
  if (!words.every((word) => text.includes(word))) return 0
  const named = name.toLowerCase(), section = part.tagName === "SECTION" ? 30 : 0
  if (named.split(/[\s:]+/).includes(wanted)) return 200 + section
  return (named.includes(wanted) ? 100 + section : 0) + Math.min(20, text.split(words[0]).length)
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

for (const sample of navigator.clipboard ? all("pre") : []) {
  const { textContent } = sample
  const button = Object.assign(document.createElement("button"), { className: "copy", textContent: "Copy" })
  button.onclick = () => navigator.clipboard.writeText(textContent).then(() => { button.textContent = "Copied" })
  sample.prepend(button)
}
