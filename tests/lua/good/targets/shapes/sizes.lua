return { large = 200 * 1024 }
