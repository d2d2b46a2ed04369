local x = {
  y = 1
  z = 2
}
return x
