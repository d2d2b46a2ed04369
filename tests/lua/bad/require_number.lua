return require(3)
