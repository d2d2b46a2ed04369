-- The fields of each table of a description: { name, type, required }. check.lua holds the types.
return {
  target = {
    { "name", "name", true },
    { "arch", "arch", true },
    { "modules", "modules", true },
    { "inherits", "name" },
    { "device", "device" },
    { "flags", "flags" },
    { "includes", "paths" },
    { "levers", "levers" },
    { "expected_absent", "absents" },
  },
  device = {
    { "compute", "compute" },
    { "sm_count", "positive" },
    { "smem_optin", "positive" },
  },
  module = {
    { "name", "name", true },
    { "source", "path", true },
    { "tile", "tile" },
    { "entries", "entries", true }, -- after tile: sizes are functions of the constants
    { "flags", "flags" },
    { "includes", "paths" },
    { "split", "boolean" },
    { "lto", "boolean" },
    { "shadow", "boolean" },
    { "drops", "drops" },
  },
  entry = {
    { "name", "symbol", true },
    { "block", "block" },
    { "smem", "size" },
    { "static_smem", "size" },
    { "twin_of", "twin" },
    { "bits", "bits" },
    { "limits", "limits" },
  },
  limits = {
    { "registers", "registers" },
    { "spill_bytes", "bytes" },
    { "stack_bytes", "bytes" },
    { "static_smem", "bytes" },
  },
  lever = {
    { "env", "variable", true },
    { "default", "default", true },
    { "kind", "kind" },
  },
}
