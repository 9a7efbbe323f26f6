// A page that joins by the link's code, with a key that cannot be read, and says what it may do.
const text = new TextEncoder();
const hex = data => [...new Uint8Array(data)].map(x => x.toString(16).padStart(2, "0")).join("");
const base64 = data => btoa(String.fromCharCode(...new Uint8Array(data)));
const hash = said => crypto.subtle.digest("SHA-256", text.encode(said));

function der(signature) {
  const whole = [0, 48].flatMap(at => {
    let number = [...new Uint8Array(signature).slice(at, at + 48)];
    while (number.length > 1 && number[0] === 0) number.shift();
    if (number[0] > 127) number = [0, ...number];
    return [2, number.length, ...number];
  });
  return new Uint8Array([48, whole.length, ...whole]);
}

async function join(code, client, pair) {
  const spki = base64(await crypto.subtle.exportKey("spki", pair.publicKey));
  const lines = spki.match(/.{1,64}/g).join("\n");
  const key = `-----BEGIN PUBLIC KEY-----\n${lines}\n-----END PUBLIC KEY-----\n`;
  const token = hex(await hash(`fedsub-join 1 token ${code}`));
  const secret = await hash(`fedsub-join 1 seal ${code}`);
  const mac = { name: "HMAC", hash: "SHA-256" };
  const sealing = await crypto.subtle.importKey("raw", secret, mac, false, ["sign"]);
  const seal = hex(await crypto.subtle.sign("HMAC", sealing, text.encode(`${client}\n${key}`)));
  const said = ["fedsub-join 1", token, client, seal, key].join("\n");
  const how = { name: "ECDSA", hash: "SHA-384" };
  const signature = hex(await crypto.subtle.sign(how, pair.privateKey, text.encode(said)));
  const answer = await fetch("/v1/join", {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ client, key, token, seal, signature }),
  });
  return [key, answer.status, await answer.json()];
}

const error = promise => promise.then(() => "", caught => caught.name);
const pair = await crypto.subtle.generateKey(
  { name: "ECDSA", namedCurve: "P-384" }, false, ["sign"]);
const [key, status, answer] = await join(location.hash.slice(1).replaceAll("-", ""), "phone", pair);
const worker = await navigator.serviceWorker.register("/sw.js");
await navigator.serviceWorker.ready;
let evaluated = "";
try { new Function("return 1")(); } catch (caught) { evaluated = caught.name; }
const wasm = await WebAssembly.instantiateStreaming(fetch("/one-ABCD2345.wasm"));
const allowed = document.featurePolicy;
const found = {
  status, answer, secure: isSecureContext, isolated: crossOriginIsolated,
  worker: worker.active.state, wasm: wasm.instance instanceof WebAssembly.Instance,
  exported: await error(crypto.subtle.exportKey("pkcs8", pair.privateKey)),
  elsewhere: await error(fetch(document.querySelector("link").dataset.elsewhere)),
  evaluated, inline: Boolean(window.inlined),
  motion: allowed.allowsFeature("accelerometer") && allowed.allowsFeature("gyroscope"),
  place: allowed.allowsFeature("geolocation"),
};
const stamp = new Date().toISOString();
const signed = await crypto.subtle.sign(
  { name: "ECDSA", hash: "SHA-256" }, pair.privateKey, text.encode(stamp));
await fetch("/v1/fleet/found", {
  method: "POST",
  headers: {
    "flwr-public-key": btoa(key), "flwr-timestamp": stamp, "flwr-signature": base64(der(signed)),
  },
  body: JSON.stringify(found),
});
