return {
  name = "bad", arch = "sm_90a",
  modules = {
    {
      name = "m", source = "a.cu",
      entries = {
        { name = "e", blocks = 32 },
        { name = "f", smem = {} },
      },
    },
    { source = "a.cu", entries = { {} } },
  },
}
