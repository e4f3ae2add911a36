# Jobs that recompute activations.
foreach(setting selective full "[0, 3, 4, 11]")
  string(REGEX REPLACE "[^a-z]+" "blocks" name "${setting}")
  sc_loss_test(test_recompute_runs_${name} SOURCES test_recompute_runs.c ARGS ${setting})
endforeach()
