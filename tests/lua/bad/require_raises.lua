local k = require "kpack"

local helper = require "raises"
local m = helper.module(3)
return m
