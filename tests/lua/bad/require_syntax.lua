return require "syntax"
