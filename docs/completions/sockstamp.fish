complete --keep-order --exclusive --command sockstamp --arguments "(COMPLETE=fish sockstamp -- (commandline --current-process --tokenize --cut-at-cursor) (commandline --current-token))"
