-- Tables without constructors, and everything that may be left out left out.
return {
  name = "plain", arch = "sm_80",
  modules = { { name = "shared", source = "shared.cu", entries = { "e", { name = "f", block = 32 } } } },
}
