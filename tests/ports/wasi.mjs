// wasi.mjs PROGRAM.wasm [ARGUMENT...]: runs a WASI program in Node.js, in the root of this repository. It can open
// absolute paths and those below tests/; arguments that name a file or folder become absolute.
import { existsSync, readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { WASI } from 'node:wasi';

const args = process.argv.slice(2).map((a) => (existsSync(a) ? resolve(a) : a));
const wasi = new WASI({ version: 'preview1', args, preopens: { '/': '/', tests: 'tests' }, returnOnExit: true });
const program = await WebAssembly.compile(readFileSync(args[0]));
process.exitCode = wasi.start(await WebAssembly.instantiate(program, wasi.getImportObject()));
