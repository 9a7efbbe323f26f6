/** Small makers of the page's elements. */

type Properties<Tag extends keyof HTMLElementTagNameMap> = Partial<Omit<HTMLElementTagNameMap[Tag], "style" | "dataset">>;

/** An element with properties and children. */
export function element<Tag extends keyof HTMLElementTagNameMap>(tag: Tag, properties: Properties<Tag> = {}, ...children: readonly (Node | string)[]): HTMLElementTagNameMap[Tag] {
  const made = document.createElement(tag);
  Object.assign(made, properties);
  made.append(...children);
  return made;
}

/** A button that does something when it is pressed. */
export function button(text: string, press: () => unknown, className = ""): HTMLButtonElement {
  return element("button", { type: "button", textContent: text, className, onclick: () => void press() });
}

/** A section under its own heading. */
export function section(id: string, title: string, ...children: readonly (Node | string)[]): HTMLElement {
  const made = element("section", { id }, element("h2", { id: `${id}-title`, textContent: title, tabIndex: -1 }), ...children);
  made.setAttribute("aria-labelledby", `${id}-title`);
  return made;
}

/** A line whose changes screen readers say. */
export function said(id: string, text = ""): HTMLParagraphElement {
  const made = element("p", { id, textContent: text });
  made.setAttribute("role", "status");
  return made;
}

/** A box to tick, before what it means. */
export function ticked(box: HTMLInputElement, text: string): HTMLElement {
  return element("div", { className: "tick" }, box, element("label", { htmlFor: box.id, textContent: text }));
}

/** A field under its label, with a hint where there is one. */
export function field(label: string, input: HTMLInputElement | HTMLSelectElement, hint = ""): HTMLElement {
  const made = element("div", { className: "field" }, element("label", { htmlFor: input.id, textContent: label }), input);
  if (hint) {
    made.append(element("small", { id: `${input.id}-hint`, textContent: hint }));
    input.setAttribute("aria-describedby", `${input.id}-hint`);
  }
  return made;
}

/** Show a text in a line, where it is another than before: nothing is said twice. */
export function show(line: HTMLElement, text: string): void {
  if (line.textContent !== text) line.textContent = text;
}
