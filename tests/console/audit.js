// What readers with weak eyes or without a screen would miss on a page, as texts.
const rgb = (text) => (text.match(/[\d.]+/g) || [0, 0, 0, 0]).map(Number);
const light = ([r, g, b]) => [r, g, b].map((n) => n / 255)
  .map((n) => (n <= 0.03928 ? n / 12.92 : ((n + 0.055) / 1.055) ** 2.4))
  .reduce((sum, n, i) => sum + n * [0.2126, 0.7152, 0.0722][i], 0);
const behind = (element) => {
  for (let at = element; at; at = at.parentElement) {
    const colour = rgb(getComputedStyle(at).backgroundColor);
    if (colour.length < 4 || colour[3] === 1) return colour;
  }
  return [255, 255, 255];
};
const wrong = [];
for (const element of document.querySelectorAll("body *")) {
  const style = getComputedStyle(element);
  const hasText = [...element.childNodes].some((node) => node.nodeType === 3 && node.data.trim());
  if (!hasText || style.visibility === "hidden" || !element.getClientRects().length) continue;
  const ink = light(rgb(element.closest("svg") ? style.fill : style.color)), paper = light(behind(element));
  const ratio = (Math.max(ink, paper) + 0.05) / (Math.min(ink, paper) + 0.05);
  const size = parseFloat(style.fontSize), isLarge = size >= 24 || (size >= 18.66 && style.fontWeight >= 700);
  if (ratio < (isLarge ? 3 : 4.5)) wrong.push(`${ratio.toFixed(2)} ${element.tagName} ${element.textContent.trim()}`);
}
for (const field of document.querySelectorAll("input:not([type=hidden]), select, textarea, button, progress, a"))
  if (!(field.labels?.length || field.ariaLabel || field.textContent.trim())) wrong.push(field.outerHTML);
for (const drawing of document.querySelectorAll("svg"))
  if (drawing.getAttribute("aria-hidden") !== "true" && !drawing.getAttribute("aria-label")) wrong.push(drawing.outerHTML);
for (const table of document.querySelectorAll("table"))
  if (!table.querySelector("th")) wrong.push("a table without headings: " + table.textContent.trim().slice(0, 40));
if (document.querySelectorAll("h1").length !== 1 || !document.documentElement.lang) wrong.push("one h1, a language");
return wrong;
