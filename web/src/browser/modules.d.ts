/** A file beside the page's script, by its address. */
declare module "*.wasm" {
  const address: string;
  export default address;
}
