/** The question whether a run may begin: what it sends, in words, and two buttons. */
import type { Terms } from "../thread/terms.js";
import { button, element } from "./elements.js";
import { SENDS, type Texts } from "./texts.js";

/** Terms in words, a paragraph each. */
export function wordsOf(terms: Terms, texts: Texts): string[] {
  const methods = terms.methods.map((name) => texts.say("consentMethod", { method: name }));
  const sends = [...new Set(terms.methods.map((name) => SENDS[name]))];
  return [
    ...methods,
    texts.say(terms.least ? "consentAlwaysSums" : "consentAlways"),
    ...(terms.least ? [texts.say("consentSums", { least: terms.least })] : []),
    ...sends.map((key) => texts.say(key)),
    ...(terms.noise ? [texts.say("consentNoise")] : []),
    texts.say("consentStays"),
  ];
}

/** The question; `answer` gets whether the person agrees. */
export function consentView(terms: Terms, texts: Texts, answer: (yes: boolean) => void): HTMLElement {
  const press = (yes: boolean) => () => {
    // The buttons go: a keyboard is then where the page says what follows.
    document.querySelector<HTMLElement>("#now-title")?.focus();
    answer(yes);
  };
  const [yes, no] = [button(texts.say("yes"), press(true)), button(texts.say("no"), press(false), "second")];
  yes.id = "consent-yes";
  no.id = "consent-no";
  const box = element(
    "div",
    { className: "consent", role: "group" },
    element("h3", { id: "consent-title", textContent: texts.say("consentTitle") }),
    ...wordsOf(terms, texts).map((text) => element("p", { textContent: text })),
    yes,
    no,
  );
  box.setAttribute("aria-labelledby", "consent-title");
  return box;
}
